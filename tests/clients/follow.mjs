// Follows a run with the EventSource that Node ships, as a browser would, and prints what came.
// Words: the URL, and "leave" to close at the run's last event or "stay" to wait to be told.
const [url, manner] = process.argv.slice(2);
const last = ["run.completed", "run.failed", "run.cancelled", "run.expired"];
const types = [
  "run.queued", "run.started", "turn.started", "turn.finished", "text.started", "text.delta",
  "text.finished", "call.started", "call.delta", "call.finished", "tool.queued", "tool.started",
  "tool.finished", ...last,
];
const seen = [];
const source = new EventSource(url);
for (const type of types) {
  source.addEventListener(type, (event) => {
    seen.push({ id: event.lastEventId, seq: JSON.parse(event.data).seq, type: event.type });
    if (manner === "leave" && last.includes(type)) source.close();
  });
}
setInterval(() => {
  if (source.readyState !== EventSource.CLOSED) return;
  console.log(JSON.stringify({ seen, state: source.readyState }));
  process.exit(0);
}, 20);
