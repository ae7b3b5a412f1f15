"""Measurements, as ratios in one run: these figures live here, and never in a timed test."""
