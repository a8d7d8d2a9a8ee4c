"""Plays many games at a time and puts every call on the record."""
