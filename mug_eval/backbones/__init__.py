"""The models that play, by kind."""
