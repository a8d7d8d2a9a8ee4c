"""The counterfactual pictures I-."""
