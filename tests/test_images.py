"""Pictures reach a backbone upright, plain and without a word about where they come from."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zlib
from typing import Any

import pytest
from PIL import Image, ImageFile, PngImagePlugin

from mug_eval.chat import ImageRef
from mug_eval.errors import QuestionError
from mug_eval.images import MOST_PNG_PIXELS, ImageError, load_image, same_pixels

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
SECRET = b"undercover-edited"


def quarters(width: int = 32, height: int = 16) -> Image.Image:
    """Red top left, green top right, blue bottom left, white bottom right."""
    picture = Image.new("RGB", (width, height), WHITE)
    picture.paste(RED, (0, 0, width // 2, height // 2))
    picture.paste(GREEN, (width // 2, 0, width, height // 2))
    picture.paste(BLUE, (0, height // 2, width // 2, height))
    return picture


def encoded(picture: Image.Image, kind: str, **settings: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **settings)
    return buffer.getvalue()


def opened(image: ImageRef) -> Image.Image:
    picture = Image.open(io.BytesIO(image.data))
    picture.load()
    return picture


def corners(image: ImageRef) -> list[str]:
    """The colours at the four corners in words: top left, top right, bottom left, bottom right."""
    picture = opened(image).convert("RGB")
    right, bottom = picture.width - 1, picture.height - 1
    names = {(1, 0, 0): "red", (0, 1, 0): "green", (0, 0, 1): "blue", (1, 1, 1): "white", (0, 0, 0): "black"}
    found = [picture.getpixel(at) for at in ((0, 0), (right, 0), (0, bottom), (right, bottom))]
    return [names.get(tuple(int(value > 127) for value in pixel), "?") for pixel in found if isinstance(pixel, tuple)]


UPRIGHT = ["red", "green", "blue", "white"]


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_plain_jpeg_or_png_is_kept_byte_for_byte(mode: str, kind: str, progressive: bool) -> None:
    settings: dict[str, Any] = {"progressive": True} if progressive and kind == "JPEG" else {}
    data = encoded(quarters().convert(mode), kind, **settings)
    image = load_image(data)
    assert image.data == data
    assert image.sha256 == hashlib.sha256(data).hexdigest()
    assert (image.width, image.height, image.media_type) == (32, 16, f"image/{kind.lower()}")


def jpeg_with_segments() -> bytes:
    data = encoded(quarters(), "JPEG", comment=SECRET, icc_profile=SECRET * 20)
    exif = Image.Exif()
    exif[0x010E] = SECRET.decode()
    body = b"Exif\0\0" + exif.tobytes()[6:]
    xmp = b"http://ns.adobe.com/xap/1.0/\0" + SECRET
    extra = b"".join(
        bytes((0xFF, code)) + struct.pack(">H", len(part) + 2) + part
        for code, part in ((0xE1, body), (0xE1, xmp), (0xED, SECRET), (0xEF, SECRET))
    )
    return data[:20] + extra + data[20:] + SECRET


def png_with_chunks() -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", SECRET.decode())
    info.add_itxt("Comment", SECRET.decode())
    info.add(b"tIME", struct.pack(">HBBBBB", 2024, 1, 1, 1, 1, 1))
    info.add(b"prVw", SECRET, after_idat=True)
    return encoded(quarters(), "PNG", pnginfo=info, icc_profile=SECRET) + SECRET


@pytest.mark.parametrize("make", [jpeg_with_segments, png_with_chunks])
def test_metadata_is_cut_out_and_the_pixels_stay_the_same(make: Any) -> None:
    data = make()
    assert SECRET in data
    image = load_image(data)
    assert SECRET not in image.data
    assert len(image.data) < len(data)
    assert opened(image).tobytes() == Image.open(io.BytesIO(data)).tobytes()
    assert opened(image).info.keys() <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert load_image(image.data) == image


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("size", [None, (24, 24)])
def test_no_description_survives_any_way_of_encoding(kind: str, size: tuple[int, int] | None) -> None:
    exif = Image.Exif()
    exif[0x010E] = SECRET.decode()
    exif[0x0112] = 6
    image = load_image(encoded(quarters(), kind, exif=exif, quality=90), size)
    assert SECRET not in image.data
    assert not opened(image).getexif()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(
    ("orientation", "expected", "turned"),
    [
        (1, ["red", "green", "blue", "white"], False),
        (2, ["green", "red", "white", "blue"], False),
        (3, ["white", "blue", "green", "red"], False),
        (4, ["blue", "white", "red", "green"], False),
        (5, ["red", "blue", "green", "white"], True),
        (6, ["blue", "red", "white", "green"], True),
        (7, ["white", "green", "blue", "red"], True),
        (8, ["green", "white", "red", "blue"], True),
        (99, ["red", "green", "blue", "white"], False),
    ],
)
def test_pictures_are_turned_upright(kind: str, orientation: int, expected: list[str], turned: bool) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = load_image(encoded(quarters(), kind, exif=exif, quality=95))
    assert corners(image) == expected
    assert (image.width, image.height) == ((16, 32) if turned else (32, 16))


def test_unreadable_exif_does_not_cost_the_picture() -> None:
    data = encoded(quarters(), "JPEG")
    broken = b"Exif\0\0II*\0\xff\xff\xff\xff"
    image = load_image(data[:20] + b"\xff\xe1" + struct.pack(">H", len(broken) + 2) + broken + data[20:])
    assert corners(image) == UPRIGHT


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_transparency_is_laid_on_white(kind: str) -> None:
    layer = quarters().convert("RGBA")
    layer.paste((0, 0, 0, 0), (0, 0, 16, 8))
    image = load_image(encoded(layer, kind, **({"lossless": True} if kind == "WEBP" else {})))
    assert corners(image) == ["white", "green", "blue", "white"]
    assert opened(image).mode == "RGB"


def test_a_transparent_colour_is_laid_on_white() -> None:
    assert corners(load_image(encoded(quarters(), "PNG", transparency=RED))) == ["white", "green", "blue", "white"]
    grey = Image.new("L", (4, 4), 0)
    assert corners(load_image(encoded(grey, "PNG", transparency=0))) == ["white"] * 4
    palette = quarters().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    clear = palette.getpixel((0, 0))
    assert corners(load_image(encoded(palette, "PNG", transparency=clear))) == ["white", "green", "blue", "white"]


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF"])
def test_palette_pictures_become_rgb(kind: str) -> None:
    image = load_image(encoded(quarters().convert("P", palette=Image.Palette.ADAPTIVE, colors=4), kind))
    assert corners(image) == UPRIGHT
    assert opened(image).mode == "RGB"
    assert image.media_type == "image/png"


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_becomes_rgb(kind: str) -> None:
    image = load_image(encoded(quarters().convert("CMYK"), kind))
    assert corners(image) == UPRIGHT
    assert opened(image).mode == "RGB"


def test_one_bit_pictures_become_rgb() -> None:
    assert corners(load_image(encoded(Image.new("1", (4, 4), 1), "PNG"))) == ["white"] * 4


def test_sixteen_bit_grey_is_scaled_and_not_clipped() -> None:
    picture = Image.new("I;16", (3, 1))
    for x, value in enumerate((0, 0x8080, 0xFFFF)):
        picture.putpixel((x, 0), value)
    shown = opened(load_image(encoded(picture, "PNG")))
    assert [shown.getpixel((x, 0)) for x in range(3)] == [(0, 0, 0), (128, 128, 128), (255, 255, 255)]


def test_float_pictures_are_scaled_from_their_own_range() -> None:
    picture = Image.new("F", (3, 1))
    for x, value in enumerate((-1.0, 0.0, 1.0)):
        picture.putpixel((x, 0), value)
    shown = opened(load_image(encoded(picture, "TIFF")))
    assert [shown.getpixel((x, 0)) for x in range(3)] == [(0, 0, 0), (128, 128, 128), (255, 255, 255)]
    picture.putpixel((0, 0), float("nan"))
    with pytest.raises(ImageError, match="no numbers"):
        load_image(encoded(picture, "TIFF"))


def test_sixteen_bit_rgb_png_is_brought_to_eight_bits() -> None:
    row = b"\0" + struct.pack(">6H", 0xFFFF, 0, 0, 0, 0xFFFF, 0)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(row))
    shown = opened(load_image(data + chunk(b"IEND", b"")))
    assert [shown.getpixel((x, 0)) for x in range(2)] == [RED, GREEN]


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_frame_is_shown(kind: str) -> None:
    other = Image.new("RGB", (32, 16), (0, 0, 0))
    image = load_image(
        encoded(quarters(), kind, save_all=True, append_images=[other], **({"lossless": True} if kind == "WEBP" else {}))
    )
    assert corners(image) == UPRIGHT
    assert getattr(opened(image), "n_frames", 1) == 1


def test_of_a_multi_picture_jpeg_the_first_is_kept() -> None:
    data = encoded(quarters(), "MPO", save_all=True, append_images=[Image.new("RGB", (32, 16), (0, 0, 0))])
    image = load_image(data)
    assert corners(image) == UPRIGHT
    assert image.media_type == "image/jpeg" and opened(image).format == "JPEG"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF"])
@pytest.mark.parametrize("shape", [(1, 1), (5000, 3), (3, 5000), (1, 700)])
def test_tiny_and_very_wide_pictures_work(kind: str, shape: tuple[int, int]) -> None:
    image = load_image(encoded(Image.new("RGB", shape, RED), kind))
    assert (image.width, image.height) == shape == opened(image).size
    assert load_image(encoded(Image.new("RGB", shape, RED), kind), (224, 224)).width == 224


def test_resizing_gives_exactly_the_size_and_the_same_bytes_each_time() -> None:
    data = encoded(quarters(), "JPEG", quality=95)
    image = load_image(data, (224, 100))
    assert (image.width, image.height) == (224, 100) == opened(image).size
    assert corners(image) == UPRIGHT
    assert load_image(data, (224, 100)) == image
    assert load_image(data, (224, 100)).data == image.data


def test_a_picture_of_the_wanted_size_is_not_blurred() -> None:
    image = load_image(encoded(quarters(), "PNG"), (32, 16))
    assert opened(image).convert("RGB").tobytes() == quarters().tobytes()


def test_large_pictures_are_encoded_anew_as_jpeg_and_small_ones_without_loss() -> None:
    noise = Image.frombytes("RGB", (64, 64), random.Random(0).randbytes(64 * 64 * 3))
    small = load_image(encoded(noise, "BMP"))
    assert small.media_type == "image/png"
    assert opened(small).tobytes() == noise.tobytes()
    large = load_image(encoded(Image.new("RGB", (2048, MOST_PNG_PIXELS // 2048 + 1), RED), "BMP"))
    assert large.media_type == "image/jpeg"
    assert corners(large) == ["red"] * 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"not a picture at all", "not a picture"),
        (b"\xff\xd8", "not"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
    ],
)
def test_what_is_no_picture_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        load_image(data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_a_truncated_picture_is_refused_wherever_it_is_cut(kind: str) -> None:
    noise = Image.frombytes("RGB", (40, 40), random.Random(1).randbytes(4800))
    data = encoded(noise, kind)
    for part in (0.1, 0.5, 0.9):
        with pytest.raises(ImageError):
            load_image(data[: int(len(data) * part)])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_truncation_is_seen_even_where_pillow_was_told_to_overlook_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    data = encoded(Image.frombytes("RGB", (40, 40), random.Random(1).randbytes(4800)), kind)
    with pytest.raises(ImageError):
        load_image(data[: len(data) // 2])


def test_damage_inside_is_an_error_of_this_picture_or_a_picture(seed: int = 5) -> None:
    rng = random.Random(seed)
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        whole = encoded(quarters(), kind)
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                image = load_image(bytes(data))
            except ImageError:
                continue
            assert opened(image).size == (image.width, image.height)


def test_a_decompression_bomb_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1e9)  # as VLMEvalKit sets it for the whole process
    data = bytearray(encoded(Image.new("L", (8, 8)), "PNG"))
    data[16:24] = struct.pack(">II", 20_000, 20_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    with pytest.raises(ImageError, match="100 megapixels"):
        load_image(bytes(data))


def test_an_image_error_leaves_the_other_questions_alone() -> None:
    assert issubclass(ImageError, QuestionError)


@pytest.mark.parametrize("size", [(0, 5), (5, -1), (100_000, 100_000)])
def test_a_size_that_cannot_be_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="resized"):
        load_image(encoded(quarters(), "PNG"), size)


def test_the_same_pixels_are_recognised_in_any_encoding() -> None:
    jpeg = load_image(encoded(quarters(), "JPEG"))
    png = load_image(encoded(opened(jpeg), "PNG"))
    assert jpeg.sha256 != png.sha256
    assert same_pixels(jpeg, png)
    changed = opened(jpeg)
    changed.putpixel((3, 3), (9, 9, 9))
    assert not same_pixels(jpeg, load_image(encoded(changed, "PNG")))
    assert not same_pixels(jpeg, load_image(encoded(quarters(16, 32), "JPEG")))
