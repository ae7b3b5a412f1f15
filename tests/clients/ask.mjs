// Asks a gateway with the providers' own packages, in each mode, and prints what came: the events
// of streams, and what the packages' helpers make of them. Words: the URL, the model, the tools.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [url, model, ...tools] = process.argv.slice(2);
const messages = [{ role: "user", content: "look x up" }];
const schema = { type: "object", properties: { q: { type: "string" } } };
const message = {
  model, messages, max_tokens: 100,
  tools: tools.map((name) => ({ name, input_schema: schema })),
};
const completion = {
  model, messages,
  tools: tools.map((name) => ({ type: "function", function: { name, parameters: schema } })),
};
const streamed = { ...completion, stream_options: { include_usage: true } };

const told = (mode) => ({
  apiKey: "mine", maxRetries: 0, defaultHeaders: { "x-loopmill-streaming": mode },
});

async function all(stream) {
  const seen = [];
  for await (const each of await stream) seen.push(each);
  return seen;
}

async function byMessages(mode) {
  const asking = new Anthropic({ baseURL: url, ...told(mode) }).messages;
  const answer = {
    plain: await asking.create(message),
    events: await all(asking.create({ ...message, stream: true })),
  };
  // Two messages in one stream are more than the helper understands.
  return mode === "compatible" ? answer : { ...answer, final: await asking.stream(message).finalMessage() };
}

async function byChat(mode) {
  const asking = new OpenAI({ baseURL: `${url}/v1`, ...told(mode) }).chat.completions;
  return {
    plain: await asking.create(completion),
    events: await all(asking.create({ ...streamed, stream: true })),
    final: await asking.stream(streamed).finalChatCompletion(),
  };
}

const answers = { messages: {}, chat: {} };
for (const mode of ["compatible", "merged", "hold"]) {
  answers.messages[mode] = await byMessages(mode);
  answers.chat[mode] = await byChat(mode);
}
console.log(JSON.stringify(answers));
