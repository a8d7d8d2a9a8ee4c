"""Rows of a leaderboard from finished runs, the board that is made of them, and files that other leaderboards take."""
