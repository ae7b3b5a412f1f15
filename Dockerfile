FROM python:3.12-slim

RUN useradd --create-home --uid 1000 loopmill
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY api ./api
COPY worker ./worker
COPY loops ./loops
RUN pip install --no-cache-dir . && rm -rf api worker loops

# The agents live in /agents: mount a folder there, or copy it in an image of your own.
WORKDIR /agents
USER loopmill
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["loopmill"]
CMD ["api", "--host", "0.0.0.0"]
