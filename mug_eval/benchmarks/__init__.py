"""The only door to VLMEvalKit: load, prompt, predictions file, score, register."""
