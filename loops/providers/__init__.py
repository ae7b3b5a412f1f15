"""The services that models are asked at, each behind the one port of `loops.model`."""
