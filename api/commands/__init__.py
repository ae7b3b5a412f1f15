"""The commands of `loopmill`, by what they need to be imported."""
