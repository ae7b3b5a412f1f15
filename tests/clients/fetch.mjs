// Follows a run with fetch and a reader of a few lines, and prints what came; a stream that breaks
// off is asked for again from where it stood. Words: the URL, and the API key.
const [url, key] = process.argv.slice(2);
const seen = [];
let connections = 0;
let position = "0";

while (true) {
  const headers = { Accept: "text/event-stream", "Last-Event-ID": position, "x-api-key": key };
  const answer = await fetch(url, { headers });
  if (answer.status === 204) break;
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  connections += 1;
  let rest = "";
  for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const fields = new Map(
        frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      if (!fields.has("data")) continue;
      position = fields.get("id");
      seen.push({ id: position, type: fields.get("event"), data: fields.get("data") });
    }
  }
}
console.log(JSON.stringify({ opened: connections, seen }));
