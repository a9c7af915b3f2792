#pragma once

#include <string_view>

/// Parsers that read bytes from outside, each as a function of one input. A function returns if its
/// parser accepts the input, or refuses it with an error that its header names. Every other error
/// leaves the function, and a broken promise ends the process, so that a fuzzer keeps the input.
namespace reprise::fuzz {

void cache_manifest(std::string_view input);  // manifest.json of the compile cache
void gguf(std::string_view input);            // a whole GGUF file
void http(std::string_view input);            // bytes that a client sends
void json(std::string_view input);            // a JSON document
void model_config(std::string_view input);    // config.json and generation_config.json
void pattern(std::string_view input);         // a regular expression of a request
void ranked_bytes(std::string_view input);    // tekken.json, and a file of tiktoken
void safetensors(std::string_view input);     // the size of the data in two bytes, then the header
void schema(std::string_view input);          // a JSON schema of a request
void sentencepiece(std::string_view input);   // tokenizer.model
void chat_template(std::string_view input);   // Jinja source
void tokenizer_file(std::string_view input);  // tokenizer.json
void tokenizer_text(std::string_view input);  // text that becomes tokens

/// Ends the process and prints `promise` if `is_kept` is false.
void require(bool is_kept, std::string_view promise);

}  // namespace reprise::fuzz
