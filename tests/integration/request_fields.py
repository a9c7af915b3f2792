"""Every documented field of every request, with a value that must matter.

A row says which outcome the field has: `EFFECT`, the answer differs from the one without the field; `UNUSED`, the header
X-Unused-Fields of the answer names it; `ERROR`, the server refuses the value and names the field. request_fields_test.py sends
each row, and holds the table against the API's description, the server's source and, if told, vLLM's and OpenAI's packages.
"""

from dataclasses import dataclass, field

EFFECT, UNUSED, ERROR = "effect", "unused", "error"

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
}
PATHS = {
    "CompletionRequest": "/v1/completions", "ChatCompletionRequest": "/v1/chat/completions", "TokenizeRequest": "/tokenize",
    "DetokenizeRequest": "/detokenize", "EmbeddingRequest": "/v1/embeddings", "ClassifyRequest": "/classify",
    "ScoreRequest": "/score", "RerankRequest": "/rerank", "LoadLoRAAdapterRequest": "/v1/load_lora_adapter",
    "UnloadLoRAAdapterRequest": "/v1/unload_lora_adapter",
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
# Shows what reaches the chat template.
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
    # Refused, because another answer is asked for.
    Row("audio", {"voice": "x", "format": "mp3"}, ERROR), Row("function_call", "auto", ERROR),
    Row("functions", [WEATHER], ERROR), Row("media_io_kwargs", {"image": {}}, ERROR),
    Row("mm_processor_kwargs", {"a": 1}, ERROR), Row("modalities", ["audio"], ERROR), Row("moderation", {"model": "m"}, ERROR),
    Row("prompt_embeds", "AAAA", ERROR), Row("repetition_detection", {"max_pattern_size": 3, "min_count": 2}, ERROR),
    Row("suffix", "end", ERROR), Row("thinking_token_budget", 5, ERROR), Row("use_beam_search", True, ERROR),
    Row("vllm_xargs", {"a": 1}, ERROR), Row("watermarking", True, ERROR), Row("web_search_options", {"a": 1}, ERROR),
    # Accepted: the answer would be the same, or the field is about OpenAI's service.
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
