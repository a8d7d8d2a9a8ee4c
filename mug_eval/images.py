"""Bytes of a picture -> ImageRef: upright, plain RGB or grey, first frame, without metadata, resized by the preset.

Nothing but pixels may reach a backbone: a caption, comment or file name inside the file could tell an agent which picture is the
altered one (validity rule 1).
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import zlib

from PIL import Image, UnidentifiedImageError

from mug_eval.chat import ImageRef
from mug_eval.errors import QuestionError

MOST_PIXELS = 100_000_000
"""Pictures with more pixels are refused as decompression bombs."""

MOST_PNG_PIXELS = 1_048_576
"""A re-encoded picture up to this size is a PNG (lossless), a larger one a JPEG of quality 95 without chroma subsampling."""

# Only raster formats that datasets use (multi-picture JPEG counts as JPEG): others (EPS, for one) start external programs or have little-tested decoders.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION = 0x0112

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_FRAMES_KEPT = (0xC0, 0xC1, 0xC2)  # baseline, extended and progressive Huffman: what every decoder reads
_TABLES = (0xDB, 0xC4, 0xDD)  # quantisation, Huffman, restart interval


class ImageError(QuestionError):
    """The bytes are no picture that can be shown."""


def load_image(data: bytes, size: tuple[int, int] | None = None) -> ImageRef:
    """Make a picture ready for a backbone.

    An upright RGB or greyscale JPEG or PNG (8 bits a channel, no transparency, no animation) is kept byte for byte when ``size``
    is None; if it carries metadata, these segments are cut out and the coded pixels stay as they are. Everything else is decoded:
    the first frame, turned upright as EXIF says, transparency laid on white, converted to RGB, then encoded as PNG, or as JPEG of
    quality 95 (4:4:4) above ``MOST_PNG_PIXELS``. Colour profiles are dropped unapplied, as the image loaders of vision-language
    models do. Integer pictures of 16 bits are scaled from 0..65535; 32-bit and float ones from their own minimum..maximum.

    Args:
        data: the encoded file.
        size: (width, height) in pixels of the result, reached by bicubic resampling without regard to the aspect ratio.

    Raises:
        ImageError: empty, truncated, not a picture, an unknown format, or more than ``MOST_PIXELS`` pixels.
        ValueError: ``size`` is not positive.
    """
    if size is not None and (size[0] < 1 or size[1] < 1 or size[0] * size[1] > MOST_PIXELS):
        raise ValueError(f"no picture can be resized to {size[0]}x{size[1]} pixels")
    picture = _decode(data)
    orientation = _orientation(picture)
    if size is None and orientation not in _UPRIGHT and picture.mode in ("RGB", "L"):
        bare = bare_jpeg(data) if data[:2] == b"\xff\xd8" else bare_png(data)
        if bare is not None:
            media_type = "image/jpeg" if bare[:2] == b"\xff\xd8" else "image/png"
            return _reference(bare, media_type, picture.width, picture.height)
    try:
        rgb = _rgb(picture)
    except (ValueError, OSError) as error:
        raise ImageError(f"a picture in mode {picture.mode} cannot be turned into RGB: {error}") from error
    if orientation in _UPRIGHT:
        rgb = rgb.transpose(_UPRIGHT[orientation])
    if size is not None and rgb.size != size:
        rgb = rgb.resize(size, Image.Resampling.BICUBIC)
    return _encode(rgb)


def same_pixels(one: ImageRef, other: ImageRef) -> bool:
    """Whether two pictures show exactly the same, however they are encoded."""
    if one.sha256 == other.sha256:
        return True
    if (one.width, one.height) != (other.width, other.height):
        return False
    return _rgb(_decode(one.data)).tobytes() == _rgb(_decode(other.data)).tobytes()


def _reference(data: bytes, media_type: str, width: int, height: int) -> ImageRef:
    return ImageRef(hashlib.sha256(data).hexdigest(), media_type, width, height, data)


def _decode(data: bytes) -> Image.Image:
    """The first frame, wholly decoded, so that a torn file is found here and not at the server."""
    if not data:
        raise ImageError("the picture is empty (0 bytes)")
    if _ends_early(data):
        # Not left to Pillow: any library can tell it, for the whole process, to fill what is missing with grey.
        raise ImageError(f"the picture is cut off: its {len(data)} bytes have no end marker")
    try:
        picture: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
        if picture.width * picture.height > MOST_PIXELS:
            raise ImageError(
                f"{picture.width}x{picture.height} pixels are more than the limit of {MOST_PIXELS // 1_000_000} megapixels"
            )
        picture.load()
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        raise ImageError(
            f"{len(data)} bytes that begin with {data[:8].hex(' ')} are not a picture ({', '.join(_FORMATS)})"
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"more pixels than the limit of {MOST_PIXELS // 1_000_000} megapixels: {error}") from error
    except Exception as error:  # decoders raise whatever a damaged file leads them into: OSError, SyntaxError, struct.error, ...
        raise ImageError(f"the picture does not decode: {type(error).__name__}: {error}") from error
    if picture.width < 1 or picture.height < 1:
        raise ImageError("the picture has no pixels")
    return picture


def _ends_early(data: bytes) -> bool:
    if data[:2] == b"\xff\xd8":
        scan = data.find(b"\xff\xda")
        return scan >= 0 and data.find(b"\xff\xd9", scan) < 0
    if data[:8] == _PNG_SIGNATURE:
        return b"IEND" not in data
    return False


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) where there is none; call it after loading, since PNG and TIFF settle it then."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # unreadable EXIF says nothing about the orientation, and the pixels decoded
        return 1
    return value if isinstance(value, int) else 1


def _rgb(picture: Image.Image) -> Image.Image:
    mode = picture.mode
    if mode.startswith("I;16"):
        picture = picture.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")
    elif mode in ("I", "F"):
        picture = _stretched(picture)
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        picture = Image.alpha_composite(white, layer)
    return picture.convert("RGB")


def _stretched(picture: Image.Image) -> Image.Image:
    """A 32-bit integer or float picture with its minimum..maximum mapped to 0..255."""
    low, high = (float(value) for value in picture.getextrema() if isinstance(value, int | float))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("it holds values that are no numbers")
    scale = 255 / (high - low) if high > low else 0.0
    return picture.convert("F").point(lambda value: value * scale + (0.5 - low * scale)).convert("L")


def _encode(rgb: Image.Image) -> ImageRef:
    # A new picture from the pixels alone: Pillow's savers copy some of ``info`` (comments, resolution, profiles) into the file.
    plain = Image.frombytes("RGB", rgb.size, rgb.tobytes())
    buffer = io.BytesIO()
    if rgb.width * rgb.height <= MOST_PNG_PIXELS:
        plain.save(buffer, "PNG")
        media_type = "image/png"
    else:
        plain.save(buffer, "JPEG", quality=95, subsampling=0)
        media_type = "image/jpeg"
    return _reference(buffer.getvalue(), media_type, rgb.width, rgb.height)


def bare_jpeg(data: bytes) -> bytes | None:
    """The JPEG with nothing in it but what decoding needs; None if it is better decoded and encoded anew.

    Kept are the frame, its tables and scans, a plain JFIF header and Adobe's colour marker; comments, EXIF, XMP, profiles,
    thumbnails and what follows the end marker go (segments as in ITU-T T.81 annex B).
    """
    kept = [b"\xff\xd8"]
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        code = data[at + 1]
        if code == 0xFF:  # fill byte
            at += 1
            continue
        if code == 0xD9:
            kept.append(b"\xff\xd9")
            return b"".join(kept)
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at:end]
        if code == 0xDA:
            found = _NEXT_MARKER.search(data, end)
            if found is None:
                return None
            end = found.start()
            kept.append(data[at:end])
        elif code in _FRAMES_KEPT or code in _TABLES:
            kept.append(segment)
        elif code == 0xE0 and segment[4:9] == b"JFIF\x00":
            if len(segment) != 18:  # with a thumbnail
                return None
            kept.append(segment)
        elif code == 0xEE and segment[4:9] == b"Adobe":
            if len(segment) != 16:
                return None
            kept.append(segment)
        elif not (0xE0 <= code <= 0xEF or code == 0xFE):
            return None
        at = end
    if data[at : at + 2] == b"\xff\xd9":
        kept.append(b"\xff\xd9")
        return b"".join(kept)
    return None


def bare_png(data: bytes) -> bytes | None:
    """The PNG with only its header, pixels and end; None if it is not plain 8-bit greyscale or RGB."""
    if data[:8] != _PNG_SIGNATURE:
        return None
    kept = [_PNG_SIGNATURE]
    at = 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        chunk = data[at : at + 12 + length]
        if len(chunk) != 12 + length or zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            return None
        if kind == b"IHDR" and (length != 13 or chunk[16] != 8 or chunk[17] not in (0, 2)):
            return None
        if kind in (b"tRNS", b"acTL"):
            return None
        if kind in (b"IHDR", b"IDAT", b"IEND"):
            kept.append(chunk)
        if kind == b"IEND":
            return b"".join(kept)
        at += 12 + length
    return None
