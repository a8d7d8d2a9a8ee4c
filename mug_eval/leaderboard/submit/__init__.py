"""A run's answers and scores as other leaderboards take them, one module a format.

Each format is written for the program that will read it: what that program does with an answer that is none is stated, and decides
what stands in the file. Nothing is sent anywhere.
"""
