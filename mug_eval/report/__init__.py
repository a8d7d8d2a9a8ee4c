"""Result folders -> pages that open from disk: the board, a run, a game. Nothing else in the house imports this package."""
