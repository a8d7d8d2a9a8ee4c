"""The ``opencv`` editor: no model, a box is enough."""

from mug_eval.counterfactual.editors.opencv.opencv_editor import OpenCVEditor

__all__ = ["OpenCVEditor"]
