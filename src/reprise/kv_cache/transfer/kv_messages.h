#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "reprise/kv_cache/transfer/kv_image.h"
#include "reprise/kv_cache/transfer/kv_mac.h"

namespace reprise::kv_cache {

/// What the two sides of a transfer say, a line of JSON each. The consumer begins:
///
///   {"op": "get", "id": ID, "nonce": NONCE, "mac": MAC}
///   -> {"status": "ok", "model": ..., "prompt": ..., "num_tokens": ..., "num_bytes": ...,
///       "mac": MAC}, then the bytes or, between processes of one machine, a descriptor; and after
///       bytes {"mac": MAC}, the code of the bytes
///   {"op": "done", "id": ID}, when the consumer has the bytes -> the image is forgotten
///
/// Anything else is answered {"status": "error", "message": ...}. The nonce is new for each
/// request, and every later code includes it, so an old message proves nothing. Without a secret no
/// message has a `mac`. `prompt` is a code of the nonce and the tokens; it tells a reader of the
/// connection nothing about a prompt, as long as the secret is one.
///
/// All functions that read throw InvalidArgument, which says what was wrong.
inline constexpr size_t kMaxMessageBytes = 4096;

struct KvGet {
  std::string id;
  std::string nonce;
};
[[nodiscard]] std::string write_get(const KvGet& get, std::string_view secret);
/// \throws InvalidArgument too when the sender does not know the secret
[[nodiscard]] KvGet read_get(std::string_view line, std::string_view secret);

/// The facts about an image that are sent before its bytes.
struct KvAnswer {
  std::string model;
  std::string prompt;  // see code_of_prompt()
  int32_t num_tokens = 0;
  size_t num_bytes = 0;
  std::string mac;  // empty without a secret
};
[[nodiscard]] KvAnswer make_answer(const KvImage& image, const KvGet& get, std::string_view secret);
[[nodiscard]] std::string write_answer(const KvAnswer& answer);
/// \throws InvalidArgument too when the answer is an error, or its `mac` is not right for `get`
[[nodiscard]] KvAnswer read_answer(std::string_view line,
                                   const KvGet& get,
                                   std::string_view secret);
/// KvAnswer::prompt of this prompt_digest().
[[nodiscard]] std::string code_of_prompt(std::string_view digest,
                                         const KvGet& get,
                                         std::string_view secret);

/// Begins the code of the bytes that follow an answer: add_piece() all of them. \pre the answer has
/// a `mac`
[[nodiscard]] KvMac begin_code_of_bytes(const KvAnswer& answer, std::string_view secret);
[[nodiscard]] std::string write_code(std::string_view code);
[[nodiscard]] std::string read_code(std::string_view line);
[[nodiscard]] std::string write_done(const KvGet& get);
[[nodiscard]] bool is_done(std::string_view line);
[[nodiscard]] std::string write_error(std::string_view message);

}  // namespace reprise::kv_cache
