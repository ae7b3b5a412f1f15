"""The demo: an agent that triages a folder of log files, and the logs to try it on."""
