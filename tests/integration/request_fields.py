"""Every documented field of every request, with a value that must matter.

A row says which outcome the field has: `EFFECT`, the answer differs from the one without the field; `UNUSED`, the header
X-Unused-Fields of the answer names it; `ERROR`, the server refuses the value and names the field. request_fields_test.py sends
each row, and holds the table against the API's description, the server's source and, if told, vLLM's and OpenAI's packages.
"""

from dataclasses import dataclass, field

EFFECT, UNUSED, ERROR = "effect", "unused", "error"
# The answer must stay the same: the field repeats what the server would write, or it only matters together with other
# fields.
SAME = "same"

MESSAGES = [{"role": "user", "content": "Tell me a story about a fox named Lily."}]
PERSON = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"]}
OPEN = {"type": "object", "properties": {}}
WEATHER = {"name": "weather", "description": "of a city", "parameters": {"type": "object", "properties": {}}}
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
TOOLS = [{"type": "function", "function": WEATHER}, {"type": "function", "function": ADD}]
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}}
CALL = '<tool_call>\\{"name": "weather", "arguments": \\{\\}\\}</tool_call>'

BASES = {
    "CompletionRequest": {"prompt": "Once upon a time there was a little fox who lived in the forest", "temperature": 0,
                          "max_tokens": 12},
    "ChatCompletionRequest": {"messages": MESSAGES, "temperature": 0, "max_tokens": 12},
    "TokenizeRequest": {"prompt": "Once upon"},
    "DetokenizeRequest": {"tokens": [300, 301]},
    "EmbeddingRequest": {"input": "abcdefghijklmnopqrstuvwxyz"},
    "ClassifyRequest": {"input": "abcdefghijklmnopqrstuvwxyz"},
    "ScoreRequest": {"text_1": "abcdefghijklmnopqrstuvwxyz", "text_2": ["ab", "xyz"]},
    "RerankRequest": {"query": "abcdefghijklmnopqrstuvwxyz", "documents": ["ab", "xyz"]},
    "LoadLoRAAdapterRequest": {"lora_name": "fox", "lora_path": "$ADAPTER"},
    "UnloadLoRAAdapterRequest": {"lora_name": "fox"},
    "MessagesRequest": {"messages": MESSAGES, "temperature": 0, "max_tokens": 12},
    "CountTokensRequest": {"messages": MESSAGES},
    "ResponsesRequest": {"input": "Tell me a story about a fox named Lily.", "temperature": 0, "max_output_tokens": 12, "top_logprobs": 1},
    "OllamaChatRequest": {"model": "tiny", "messages": MESSAGES, "options": {"temperature": 0, "num_predict": 12}},
    "OllamaGenerateRequest": {"model": "tiny", "prompt": "Tell me a story", "options": {"temperature": 0, "num_predict": 12}},
    "OllamaShowRequest": {"model": "tiny"},
    "OllamaEmbedRequest": {"model": "tiny", "input": "abcdefghijklmnopqrstuvwxyz"},
    "OllamaEmbeddingsRequest": {"model": "tiny", "prompt": "abcdefghijklmnopqrstuvwxyz"},
}
PATHS = {
    "CompletionRequest": "/v1/completions", "ChatCompletionRequest": "/v1/chat/completions", "TokenizeRequest": "/tokenize",
    "DetokenizeRequest": "/detokenize", "EmbeddingRequest": "/v1/embeddings", "ClassifyRequest": "/classify",
    "ScoreRequest": "/score", "RerankRequest": "/rerank", "LoadLoRAAdapterRequest": "/v1/load_lora_adapter",
    "UnloadLoRAAdapterRequest": "/v1/unload_lora_adapter", "MessagesRequest": "/v1/messages",
    "CountTokensRequest": "/v1/messages/count_tokens", "ResponsesRequest": "/v1/responses", "OllamaChatRequest": "/api/chat",
    "OllamaGenerateRequest": "/api/generate", "OllamaShowRequest": "/api/show", "OllamaEmbedRequest": "/api/embed",
    "OllamaEmbeddingsRequest": "/api/embeddings",
}


@dataclass
class Row:
    """`path` is that of the description: "messages[].name" is in the last message. `base` is merged into the route's body."""

    path: str
    value: object
    expect: str = EFFECT
    base: dict = field(default_factory=dict)
    server: str = "text"
    schemas: tuple = ()


HOT = {"temperature": 1.5, "seed": 1}
LONG = {"max_tokens": 60, "ignore_eos": True}
ENDS = {"logit_bias": {"0": 100, "2": 100}}  # with an end token
CONTROL = {"logit_bias": {"1": 100}}  # "<|im_start|>"
STREAM = {"stream": True}
# A template that prints everything that reaches it.
SHOWN = {"chat_template": "{{ messages | tojson }}{% if tools %}{{ tools | tojson }}{% endif %}"
                          "{% if documents %}{{ documents | tojson }}{% endif %}{{ x }}{{ reasoning_effort }}",
         "return_prompt_text": True, "max_tokens": 1}
SCHEMA_FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}}


def said(*parts, **message):
    return {**SHOWN, "messages": [*MESSAGES, {"role": "assistant", "content": list(parts) or "Hi", **message}]}


def called(**function):
    return said(tool_calls=[{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}", **function}}])


# Of completions and chats.
SAMPLING = [
    Row("model", "nobody", ERROR),
    Row("max_tokens", 3),
    Row("temperature", 1.5, base={"seed": 1}),
    Row("top_p", 0.01, base=HOT), Row("top_k", 1, base=HOT), Row("min_p", 1.0, base=HOT), Row("seed", 2, base=HOT),
    Row("n", 2), Row("best_of", 2, ERROR),
    Row("stop", [" "]), Row("stop_token_ids", "$IDS"), Row("include_stop_str_in_output", True, base={"stop": [" "]}),
    *(Row(name, value, base={**LONG, **HOT}) for name, value in {
        "presence_penalty": 2, "frequency_penalty": 2, "repetition_penalty": 5}.items()),
    Row("min_tokens", 5, base=ENDS), Row("ignore_eos", True, base=ENDS),
    Row("skip_special_tokens", False, base=CONTROL), Row("spaces_between_special_tokens", True, UNUSED),
    Row("logit_bias", {"300": 100}), Row("allowed_token_ids", [300, 301]), Row("bad_words", [".", ",", "a"]),
    Row("prompt_logprobs", 1), Row("logprob_token_ids", [300, 301], base={"logprobs": 1}),
    Row("truncate_prompt_tokens", 3), Row("truncation_side", "right", base={"truncate_prompt_tokens": 3, "return_token_ids": True}),
    Row("request_id", "mine"), Row("return_token_ids", True), Row("return_tokens_as_token_ids", True, base={"logprobs": 1}),
    Row("priority", 5, ERROR), Row("cache_salt", "$SALT"), Row("add_special_tokens", "$OTHER"),
    Row("stream", True), Row("stream_options", {"include_usage": True}, base=STREAM),
    Row("stream_options.include_usage", True, base={**STREAM, "stream_options": {}}),
    Row("stream_options.continuous_usage_stats", True, base={**STREAM, "stream_options": {"include_usage": True}}),
    Row("stream_options.include_obfuscation", True, UNUSED, base={**STREAM, "stream_options": {}}),
    Row("stream_interval", 4, base=STREAM),
    Row("response_format", {"type": "json_object"}),
    Row("response_format.type", "json_object", base={"response_format": {"type": "text"}}),
    Row("response_format.json_schema", {"schema": {"const": 7}}, base=SCHEMA_FORMAT),
    Row("response_format.json_schema.schema", {"const": 7}, base=SCHEMA_FORMAT),
    Row("response_format.json_schema.name", "q", UNUSED, base=SCHEMA_FORMAT),
    Row("response_format.json_schema.description", "q", UNUSED, base=SCHEMA_FORMAT),
    Row("response_format.json_schema.strict", False, UNUSED, base=SCHEMA_FORMAT),
    Row("response_format.format", {"type": "const_string", "value": "no"}, base={"response_format": TAG}),
    # Structures that no trigger begins are refused.
    Row("response_format.structures", [{"begin": "<b>", "schema": {}, "end": "</b>"}], ERROR, base={"response_format": {
        "type": "structural_tag", "triggers": ["<a>"], "structures": [{"begin": "<a>", "schema": {}, "end": "</b>"}]}}),
    Row("response_format.triggers", ["<b>"], ERROR, base={"response_format": {
        "type": "structural_tag", "triggers": ["<a>"], "structures": [{"begin": "<a>", "schema": {}, "end": "</b>"}]}}),
    Row("structured_outputs", {"regex": "[0-9]{3}"}),
    Row("structured_outputs.json", PERSON, base={"structured_outputs": {}}),
    Row("structured_outputs.regex", "[0-9]{3}", base={"structured_outputs": {}}),
    Row("structured_outputs.choice", ["yes", "no"], base={"structured_outputs": {}}),
    Row("structured_outputs.grammar", 'root ::= "yes"', base={"structured_outputs": {}}),
    Row("structured_outputs.json_object", True, base={"structured_outputs": {}}),
    Row("structured_outputs.structural_tag", TAG, base={"structured_outputs": {}}),
    Row("structured_outputs.disable_any_whitespace", True, base={
        "structured_outputs": {"json": {"type": "array", "minItems": 3, "items": {"const": 1}}}, "logit_bias": "$SPACES"}),
    Row("structured_outputs.disable_additional_properties", True,
        base={"structured_outputs": {"json": OPEN}, "logit_bias": "$QUOTES"}),
    Row("structured_outputs.whitespace_pattern", " ", ERROR, base={"structured_outputs": {"json": PERSON}}),
    Row("guided_json", PERSON), Row("guided_regex", "[0-9]{3}"), Row("guided_choice", ["yes", "no"]),
    Row("guided_grammar", 'root ::= "yes"'), Row("guided_decoding_backend", "xgrammar", UNUSED, base={"guided_regex": "a"}),
    Row("guided_whitespace_pattern", " ", UNUSED, base={"guided_json": PERSON}),
    Row("kv_transfer_params", {"do_remote_decode": True}, ERROR),
    Row("kv_transfer_params.do_remote_decode", True, ERROR, base={"kv_transfer_params": {}}),
    Row("kv_transfer_params.do_remote_prefill", True, ERROR, base={"kv_transfer_params": {}}),
    # Refused: these fields ask for an answer of another kind.
    Row("audio", {"voice": "x", "format": "mp3"}, ERROR), Row("function_call", "auto", ERROR),
    Row("functions", [WEATHER], ERROR), Row("media_io_kwargs", {"image": {}}, ERROR),
    Row("mm_processor_kwargs", {"a": 1}, ERROR), Row("modalities", ["audio"], ERROR), Row("moderation", {"model": "m"}, ERROR),
    Row("prompt_embeds", "AAAA", ERROR), Row("repetition_detection", {"max_pattern_size": 3, "min_count": 2}, ERROR),
    Row("suffix", "end", ERROR), Row("thinking_token_budget", 5, ERROR), Row("use_beam_search", True, ERROR),
    Row("vllm_xargs", {"a": 1}, ERROR), Row("watermarking", True, ERROR), Row("web_search_options", {"a": 1}, ERROR),
    # Accepted: the answer would be the same, or the field concerns OpenAI's service.
    *(Row(name, value, UNUSED) for name, value in {
        "ec_transfer_params": {"a": 1}, "length_penalty": 2, "metadata": {"a": "b"}, "mm_payload": "none",
        "prediction": {"type": "content", "content": "x"}, "prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h", "return_mm_kwargs": False, "return_token_offsets": True,
        "routed_experts_prompt_start": 3, "safety_identifier": "s", "service_tier": "flex", "session_id": "s", "store": True,
        "user": "u", "verbosity": "low", "nobody_knows_this": 1}.items()),
]

CHAT_TEMPLATE = [
    Row("messages", [{"role": "user", "content": "Hello!"}]),
    Row("messages[].role", "critic", base=said()),
    Row("messages[].content", "Hello!", base=said()),
    Row("messages[].content[].type", "refusal", base=said({"type": "text", "text": "a", "refusal": "b"})),
    Row("messages[].content[].text", "b", base=said({"type": "text", "text": "a"})),
    Row("messages[].content[].refusal", "b", base=said({"type": "refusal", "refusal": "a"})),
    Row("messages[].content[].cache_control", {"type": "ephemeral"}, UNUSED, base=said({"type": "text", "text": "a"})),
    Row("messages[].content[].image_url", {"url": "x"}, UNUSED, base=said({"type": "text", "text": "a"})),
    Row("messages[].name", "Ann", base=said()),
    Row("messages[].refusal", "no", base=said(content=None)),
    Row("messages[].audio", {"id": "1"}, ERROR, base=said()),
    Row("messages[].function_call", {"name": "add", "arguments": "{}"}, base=said()),
    Row("messages[].function_call.name", "sub", base=said(function_call={"name": "add"})),
    Row("messages[].function_call.arguments", '{"a": 1}', base=said(function_call={"name": "add"})),
    Row("messages[].tool_calls", [{"id": "1", "type": "function", "function": {"name": "add"}}], base=said()),
    Row("messages[].tool_calls[].id", "2", base=called()),
    Row("messages[].tool_calls[].type", "custom", None, base=called()),
    Row("messages[].tool_calls[].function", {"name": "sub"}, base=called()),
    Row("messages[].tool_calls[].function.name", "sub", base=called()),
    Row("messages[].tool_calls[].function.arguments", '{"a": 1}', base=called()),
    Row("messages[].tool_call_id", "1", base=said(role="tool")),
    *(Row(f"messages[].{name}", "because", base=said()) for name in ("reasoning", "reasoning_content", "thinking")),
    *(Row(f"messages[].content[].{name}", "b", base=said({"type": name, name: "a"})) for name in ("thinking", "reasoning")),
    Row("messages[].tools", TOOLS, None, base=said(role="developer")),
    Row("messages[].task", "x", None, base=said()),
    Row("messages[].weight", 1, UNUSED, base=said()),
    Row("add_generation_prompt", False),
    Row("continue_final_message", True, base={**said(), "chat_template": None, "add_generation_prompt": False}),
    Row("chat_template", "{{ messages[0].content }}!"),
    Row("chat_template_kwargs", {"x": 1}, base=SHOWN),
    Row("reasoning_effort", "high", base=SHOWN),
    Row("documents", [{"title": "a"}], base=SHOWN),
    Row("tools", TOOLS, None, base=SHOWN),
]
TOOL_FIELDS = [
    Row("tools[].type", "custom", ERROR, base={**SHOWN, "tools": TOOLS, "tool_choice": "none"}),
    Row("tools[].defer_loading", True, base={**SHOWN, "tools": TOOLS, "tool_choice": "none"}),
    Row("tools[].function", {"name": "sub"}, base={**SHOWN, "tools": TOOLS, "tool_choice": "none"}),
    *(Row(f"tools[].function.{name}", value, base={**SHOWN, "tools": TOOLS, "tool_choice": "none"}) for name, value in {
        "name": "sub", "description": "adds", "parameters": {"type": "object"}, "strict": True, "defer_loading": True}.items()),
    Row("tool_choice", "required", base={"tools": TOOLS, "tool_choice": "none"}),
    Row("tool_choice.type", "custom", ERROR, base={"tools": TOOLS, "tool_choice": {"function": {"name": "add"}}}),
    Row("tool_choice.function", {"name": "weather"}, base={"tools": TOOLS, "tool_choice": {"function": {"name": "add"}}}),
    Row("tool_choice.function.name", "weather", base={"tools": TOOLS, "tool_choice": {"function": {"name": "add"}}}),
    *(Row(f"tool_choice.allowed_tools{path}", value, base={**SHOWN, "tools": TOOLS, "tool_choice": {
        "type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "add"}}]}}})
      for path, value in {"": {"mode": "auto", "tools": [{"function": {"name": "weather"}}]}, ".mode": "required",
                          ".tools": [{"function": {"name": "weather"}}]}.items()),
    Row("parallel_tool_calls", False, base={"tools": TOOLS, "structured_outputs": {"regex": CALL * 2}, "max_tokens": 200}),
]

ROWS = [
    ("CompletionRequest", Row("prompt", "Question: 3 + 4?")),
    ("CompletionRequest", Row("logprobs", 2)),
    ("CompletionRequest", Row("echo", True)),
    *(("CompletionRequest", row) for row in SAMPLING),
    *(("ChatCompletionRequest", row) for row in [*SAMPLING, *CHAT_TEMPLATE, *TOOL_FIELDS]),
    ("ChatCompletionRequest", Row("logprobs", True)),
    ("ChatCompletionRequest", Row("echo", True, base={**said(), "chat_template": None, "add_generation_prompt": False,
                                                      "continue_final_message": True})),
    ("ChatCompletionRequest", Row("top_logprobs", 2, base={"logprobs": True})),
    ("ChatCompletionRequest", Row("max_completion_tokens", 3)),
    ("ChatCompletionRequest", Row("return_prompt_text", True)),
    ("ChatCompletionRequest", Row("include_reasoning", False, server="reasoning")),
    ("TokenizeRequest", Row("prompt", "Hello")),
    ("TokenizeRequest", Row("model", "nobody", ERROR)),
    ("TokenizeRequest", Row("add_special_tokens", False)),
    ("TokenizeRequest", Row("return_token_strs", True)),
    ("TokenizeRequest", Row("media_io_kwargs", {"image": {}}, UNUSED)),
    ("TokenizeRequest", Row("mm_processor_kwargs", {"a": 1}, UNUSED)),
    ("TokenizeRequest", Row("nobody_knows_this", 1, UNUSED)),
    ("DetokenizeRequest", Row("tokens", [302])),
    ("DetokenizeRequest", Row("model", "nobody", ERROR)),
    ("DetokenizeRequest", Row("nobody_knows_this", 1, UNUSED)),
]
for _row in CHAT_TEMPLATE + [Row(row.path, row.value, None, row.base) for row in TOOL_FIELDS if row.path.startswith("tools[]")]:
    # /tokenize shows tokens instead of the prompt's text.
    _base = {"prompt": None, "messages": MESSAGES, **{name: value for name, value in _row.base.items()
                                                     if name not in ("return_prompt_text", "max_tokens")}}
    ROWS.append(("TokenizeRequest", Row(_row.path, _row.value, _row.expect, _base)))

_POOLING = [
    Row("model", "nobody", ERROR), Row("add_special_tokens", False), Row("truncate_prompt_tokens", 2),
    Row("truncation_side", "left", base={"truncate_prompt_tokens": 2}), Row("request_id", "mine"), Row("priority", 5, ERROR),
    Row("user", "u", UNUSED), Row("nobody_knows_this", 1, UNUSED), Row("padding", "max_length", ERROR),
    Row("mm_processor_kwargs", {"a": 1}, ERROR), Row("media_io_kwargs", {"a": {}}, ERROR), Row("cache_salt", "$SALT"),
]
_SERVERS = {"EmbeddingRequest": "vectors", "ClassifyRequest": "scores", "ScoreRequest": "scores", "RerankRequest": "scores"}
_POOLING_OF = {
    "EmbeddingRequest": [
        Row("input", "xyz"), Row("encoding_format", "base64"), Row("dimensions", 8), Row("normalize", False),
        Row("use_activation", False), Row("embed_dtype", "float16", ERROR), Row("endianness", "big", ERROR),
        Row("messages", MESSAGES, ERROR), Row("task", "embed", UNUSED)],
    "ClassifyRequest": [
        Row("input", "xyz"), Row("use_activation", False), Row("normalize", False), Row("messages", MESSAGES, ERROR)],
    "ScoreRequest": [Row(name, "xyz", base=base) for name, base in {
        "text_1": {}, "text_2": {}, "queries": {"text_1": None}, "data_1": {"text_1": None}, "documents": {"text_2": None},
        "items": {"text_2": None}, "data_2": {"text_2": None}}.items()],
    "RerankRequest": [
        Row("query", "xyz"), Row("documents", ["abc", "def"]), Row("top_n", 1), Row("return_documents", False, UNUSED)],
}
_PAIRS = [
    Row("use_activation", False), Row("normalize", False), Row("instruction", "x", ERROR),
    Row("chat_template_kwargs", {"a": 1}, ERROR), Row("max_tokens_per_doc", 3, ERROR), Row("max_tokens_per_query", 3, ERROR),
]
_OLLAMA_VECTORS = [
    Row("model", "nobody", ERROR), Row("options", {"num_ctx": 64}, UNUSED), Row("keep_alive", "5m", UNUSED),
    Row("nobody_knows_this", 1, UNUSED)]
ROWS += [(_schema, Row(row.path, row.value, row.expect, row.base, "vectors")) for _schema, _rows in {
    "OllamaEmbedRequest": [
        Row("input", ["xyz", "a"]), Row("input", 7, ERROR), Row("dimensions", 8), Row("dimensions", -1, ERROR),
        Row("truncate", "maybe", ERROR)],
    "OllamaEmbeddingsRequest": [Row("prompt", "xyz"), Row("prompt", ["xyz"], ERROR)],
}.items() for row in _OLLAMA_VECTORS + _rows]
for _schema, _server in _SERVERS.items():
    _rows = _POOLING + _POOLING_OF[_schema] + (_PAIRS if _schema in ("ScoreRequest", "RerankRequest") else [])
    ROWS += [(_schema, Row(row.path, row.value, row.expect, row.base, _server)) for row in _rows]
ROWS += [(_schema, Row(path, value, expect, base, "adapters")) for _schema, path, value, expect, base in (
    ("LoadLoRAAdapterRequest", "lora_name", "owl", EFFECT, {}),
    ("LoadLoRAAdapterRequest", "lora_path", "/nowhere", ERROR, {}),
    ("LoadLoRAAdapterRequest", "load_inplace", True, EFFECT, {"lora_name": "there"}),
    ("LoadLoRAAdapterRequest", "is_3d_lora_weight", True, UNUSED, {"lora_name": "third"}),
    ("UnloadLoRAAdapterRequest", "lora_name", "nobody", ERROR, {}),
    ("UnloadLoRAAdapterRequest", "lora_int_id", 3, UNUSED, {"lora_name": "there"}))]

# APIs other than OpenAI's chats. This server's template prints everything that reaches it.
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 3}}, "required": ["city"]}
_CLIENT_TOOLS = [{"name": "weather", "description": "of a city", "input_schema": _SCHEMA}, {"name": "add", "input_schema": PERSON}]
_FLAT_TOOLS = [{"type": "function", "name": "weather", "parameters": _SCHEMA}, {"type": "function", "name": "add", "parameters": PERSON}]
_JSON_FORMAT = {"type": "json_schema", "schema": _SCHEMA}


def _blocks(block, role="assistant"):
    return {"messages": [*MESSAGES, {"role": role, "content": [block]}]}


def _items(*items):
    return {"input": [{"role": "user", "content": "Hi"}, *items]}


_USE = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "sunny"}
_CALL = {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"}
_OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "sunny"}
_PROMPT_OF_MESSAGES = [
    Row("model", "nobody", ERROR), Row("system", "Be brief."),
    Row("system[].type", "image", ERROR, base={"system": [{"type": "text", "text": "Be brief."}]}),
    Row("system[].text", "Be long.", base={"system": [{"type": "text", "text": "Be brief."}]}),
    Row("system[].cache_control", {"type": "ephemeral"}, UNUSED, base={"system": [{"type": "text", "text": "a"}]}),
    Row("messages", [{"role": "user", "content": "Hello!"}]), Row("messages[].role", "a longer role"),
    Row("messages[].content", "Hello!"),
    Row("messages[].content[].type", "image", ERROR, base=_blocks({"type": "text", "text": "a"})),
    Row("messages[].content[].text", "b c d", base=_blocks({"type": "text", "text": "a"})),
    Row("messages[].content[].thinking", "b c d", base=_blocks({"type": "thinking", "thinking": "a"})),
    Row("messages[].content[].data", "b", UNUSED, base=_blocks({"type": "redacted_thinking"})),
    Row("messages[].content[].id", "a long name", base=_blocks(_USE)), Row("messages[].content[].name", "rain in Rome", base=_blocks(_USE)),
    Row("messages[].content[].input", {"city": "Rome"}, base=_blocks(_USE)),
    Row("messages[].content[].tool_use_id", "a long name", base=_blocks(_RESULT, "user")),
    Row("messages[].content[].content", "rain in Rome", base=_blocks(_RESULT, "user")),
    Row("messages[].content[].is_error", True, UNUSED, base=_blocks(_RESULT, "user")),
    Row("messages[].content[].tool", {"type": "tool_definition", "definition": _CLIENT_TOOLS[1]}, base=_blocks(
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": _CLIENT_TOOLS[0]}}, "system")),
    Row("messages[].content[].tool.definition", _CLIENT_TOOLS[1], base=_blocks(
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": _CLIENT_TOOLS[0]}}, "system")),
    Row("tools", _CLIENT_TOOLS, base={"tool_choice": None}),
    Row("tools[].type", "web_search_20250305", ERROR, base={"tools": _CLIENT_TOOLS}),
    *(Row(f"tools[].{name}", value, base={"tools": _CLIENT_TOOLS}) for name, value in {
        "name": "sub", "description": "adds", "input_schema": OPEN, "strict": True, "defer_loading": True}.items()),
    Row("tools[].cache_control", {"type": "ephemeral"}, UNUSED, base={"tools": _CLIENT_TOOLS}),
    Row("thinking", {"type": "disabled"}), Row("thinking.type", "disabled", base={"thinking": {"type": "enabled"}}),
    Row("thinking.budget_tokens", 1024, UNUSED, base={"thinking": {"type": "enabled"}}),
    Row("output_config", {"effort": "low"}), Row("output_config.effort", "low", base={"output_config": {}}),
    Row("mcp_servers", [{"url": "x"}], ERROR),
    *(Row(name, value, UNUSED) for name, value in {
        "metadata": {"user_id": "u"}, "service_tier": "auto", "context_management": {"edits": []}, "cache_control": {"type": "ephemeral"},
        "container": "c", "inference_geo": "us", "speed": "fast", "nobody_knows_this": 1}.items()),
]
_DIALECTS = {
    "MessagesRequest": [
        *_PROMPT_OF_MESSAGES, Row("max_tokens", 3), Row("temperature", 1.5), Row("top_k", 1, base={"temperature": 1.5}),
        Row("top_p", 0.01, base={"temperature": 1.5}), Row("stop_sequences", [" "]), Row("stream", True),
        Row("messages[].content[].signature", "x", SAME, base=_blocks({"type": "thinking", "thinking": "a"})),
        Row("tool_choice", {"type": "any"}, base={"tools": _CLIENT_TOOLS, "max_tokens": 60}),
        Row("tool_choice.type", "any", base={"tools": _CLIENT_TOOLS, "max_tokens": 60, "tool_choice": {"type": "none"}}),
        Row("tool_choice.name", "weather", base={"tools": _CLIENT_TOOLS, "max_tokens": 60, "tool_choice": {"type": "tool", "name": "add"}}),
        Row("tool_choice.disable_parallel_tool_use", True, SAME, base={"tools": _CLIENT_TOOLS, "tool_choice": {"type": "any"}}),
        Row("output_config.format", _JSON_FORMAT, base={"output_config": {}}), Row("output_format", _JSON_FORMAT),
        *(Row(f"{path}.{name}", value, expect, base=base) for path, base in (
            ("output_config.format", {"output_config": {"format": _JSON_FORMAT}}), ("output_format", {"output_format": _JSON_FORMAT}))
          for name, value, expect in (("type", "text", ERROR), ("schema", {"const": 7}, EFFECT))),
    ],
    "CountTokensRequest": [
        *_PROMPT_OF_MESSAGES,
        Row("output_config.format.type", "text", ERROR, base={"output_config": {"format": _JSON_FORMAT}}),
        Row("output_format.type", "text", ERROR, base={"output_format": _JSON_FORMAT}),
        Row("messages[].content[].signature", "x", SAME, base=_blocks({"type": "thinking", "thinking": "a"})),
        *(Row(path, value, SAME, base={"tools": _CLIENT_TOOLS, **base}) for path, value, base in (
            ("output_config.format", _JSON_FORMAT, {"output_config": {}}), ("output_format", _JSON_FORMAT, {}),
            ("output_config.format.schema", {"const": 7}, {"output_config": {"format": _JSON_FORMAT}}),
            ("output_format.schema", {"const": 7}, {"output_format": _JSON_FORMAT}),
            ("tool_choice", {"type": "any"}, {}), ("tool_choice.type", "any", {"tool_choice": {"type": "none"}}),
            ("tool_choice.name", "weather", {"tool_choice": {"type": "tool", "name": "add"}}),
            ("tool_choice.disable_parallel_tool_use", True, {"tool_choice": {"type": "any"}}))),
    ],
    "ResponsesRequest": [
        Row("model", "nobody", ERROR), Row("input", "Hello!"), Row("instructions", "Be brief."), Row("stream", True),
        Row("previous_response_id", "resp_1", ERROR), Row("store", False), Row("max_output_tokens", 3), Row("temperature", 1.5),
        Row("top_p", 0.01, base={"temperature": 1.5}), Row("top_logprobs", 2), Row("include", ["message.output_text.logprobs"], base={"top_logprobs": None}),
        Row("include", ["reasoning.encrypted_content"], UNUSED),
        Row("input[].type", "item_reference", ERROR, base=_items({"type": "message", "role": "user", "content": "b"})),
        Row("input[].role", "assistant", base=_items({"role": "user", "content": "b"})),
        Row("input[].content", "Hello!", base=_items({"role": "user", "content": "b"})),
        Row("input[].summary", [{"type": "summary_text", "text": "b c d"}], base=_items({"type": "reasoning", "summary": []})),
        Row("input[].encrypted_content", "x", UNUSED, base=_items({"type": "reasoning", "summary": []})),
        *(Row(f"input[].{name}", value, base=_items(_CALL)) for name, value in (
            ("call_id", "a long name"), ("name", "a long name"), ("namespace", "space"), ("arguments", '{"city": "Rome"}'))),
        Row("input[].input", "rain in Rome", base=_items({"type": "custom_tool_call", "call_id": "a", "name": "b", "input": "c"})),
        Row("input[].output", "rain in Rome", base=_items(_CALL, _OUTPUT)),
        Row("tools", _FLAT_TOOLS), Row("tools[].type", "mcp", ERROR, base={"tools": _FLAT_TOOLS}),
        Row("tools[].tools", _FLAT_TOOLS[1:], base={"tools": [{"type": "namespace", "name": "space", "tools": _FLAT_TOOLS[:1]}]}),
        *(Row(f"input[].{name}", "x", SAME, base=_items({"role": "user", "content": "b"})) for name in ("id", "status")),
        *(Row(f"tools[].{name}", value, base={"tools": _FLAT_TOOLS}) for name, value in {
            "name": "sub", "description": "adds", "parameters": OPEN, "strict": True}.items()),
        Row("tool_choice", "required", base={"tools": _FLAT_TOOLS, "max_output_tokens": 60}),
        Row("tool_choice.type", "mcp", ERROR, base={"tools": _FLAT_TOOLS, "tool_choice": {"type": "function", "name": "add"}}),
        Row("parallel_tool_calls", False), Row("text", {"format": {**_JSON_FORMAT, "name": "a"}}),
        Row("text.format", {**_JSON_FORMAT, "name": "a"}, base={"text": {}}), Row("text.verbosity", "low", UNUSED, base={"text": {}}),
        Row("text.format.type", "json_object", base={"text": {"format": {"type": "text"}}}),
        Row("text.format.schema", {"const": 7}, base={"text": {"format": _JSON_FORMAT}}),
        *(Row(f"text.format.{name}", value, None, base={"text": {"format": _JSON_FORMAT}}) for name, value in {
            "name": "b", "description": "b", "strict": False}.items()),
        Row("reasoning", {"effort": "low"}), Row("reasoning.effort", "low", base={"reasoning": {}}),
        Row("reasoning.summary", "auto", UNUSED, base={"reasoning": {}}),
        Row("truncation", "auto"), Row("metadata", {"a": "b"}), Row("top_k", 1, base={"temperature": 1.5}),
        Row("min_p", 1.0, base={"temperature": 1.5, "seed": 1}), Row("seed", 2, base={"temperature": 1.5, "seed": 1}),
        Row("stop", [" "]), Row("stop_token_ids", [300], base={"logit_bias": {"300": 100}}), Row("ignore_eos", True, base={**ENDS}), Row("min_tokens", 5, base=ENDS),
        *(Row(name, value, base={"max_output_tokens": 60, "ignore_eos": True, **HOT}) for name, value in {
            "presence_penalty": 2, "frequency_penalty": 2, "repetition_penalty": 5}.items()),
        Row("logit_bias", {"300": 100}), Row("chat_template_kwargs", {"x": 1}), Row("include_reasoning", False, SAME),
        Row("priority", 5, ERROR), Row("cache_salt", "$SALT"), Row("background", True, ERROR), Row("conversation", "c", ERROR),
        Row("prompt", {"id": "p"}, ERROR),
        *(Row(name, value, UNUSED) for name, value in {
            "max_tool_calls": 3, "user": "u", "prompt_cache_key": "k", "safety_identifier": "s", "service_tier": "flex",
            "stream_options": {"include_obfuscation": False}, "nobody_knows_this": 1}.items()),
    ],
    "OllamaShowRequest": [Row("model", "nobody", ERROR), Row("name", 7, ERROR, base={"model": None, "name": "tiny"}), Row("verbose", True, UNUSED)],
}
_OLLAMA = [
    Row("model", "nobody", ERROR), Row("stream", False), Row("format", "json"), Row("think", False), Row("think", "low"),
    Row("options", {"num_predict": 3}), Row("options.num_predict", 3),
    *(Row(f"options.{name}", value, base={"options": {"temperature": 1.5, "seed": 1, "num_predict": 60}}) for name, value in {
        "temperature": 0, "top_p": 0.01, "top_k": 1, "min_p": 1.0, "seed": 2, "repeat_penalty": 5, "presence_penalty": 2,
        "frequency_penalty": 2, "stop": [" "]}.items()),
    Row("options.num_ctx", 4096, UNUSED), Row("keep_alive", "5m", UNUSED), Row("nobody_knows_this", 1, UNUSED),
]
_SAID = {"messages": [*MESSAGES, {"role": "assistant", "content": "Hi"}]}
_DIALECTS["OllamaChatRequest"] = [
    *_OLLAMA, Row("messages", [{"role": "user", "content": "Hello!"}]), Row("messages[].role", "assistant"),
    Row("messages[].content", "Hello!"), Row("messages[].thinking", "b c d", base=_SAID), Row("messages[].tool_name", "weather"),
    Row("messages[].images", ["AAAA"], ERROR),
    Row("messages[].name", "Ann"), Row("messages[].tool_call_id", "a long name"),
    Row("messages[].tool_calls", [{"function": {"name": "weather", "arguments": {}}}], base=_SAID),
    Row("tools", TOOLS),
]
_DIALECTS["OllamaGenerateRequest"] = [
    *_OLLAMA, Row("prompt", "Hello!"), Row("system", "Be brief."), Row("raw", True), Row("suffix", "x", ERROR),
    Row("template", "x", ERROR), Row("context", [1], ERROR), Row("images", ["AAAA"], ERROR),
]
ROWS += [(_schema, Row(row.path, row.value, row.expect, row.base, "dialects")) for _schema, _rows in _DIALECTS.items() for row in _rows]
