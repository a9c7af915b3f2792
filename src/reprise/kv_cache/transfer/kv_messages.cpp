#include "reprise/kv_cache/transfer/kv_messages.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::kv_cache {
namespace {

constexpr JsonLimits kLineLimits{.max_bytes = kMaxMessageBytes, .max_depth = 2, .max_parts = 32};
constexpr size_t kMaxIdBytes = 256;
constexpr size_t kLeastNonceBytes = 32;  // 128 bits in hexadecimal digits

[[noreturn]] void refuse_message(std::string_view what) {
  throw InvalidArgument(fmt::format("a KV transfer: {}", what));
}

Json read_message(std::string_view line) {
  Json message = parse_json(line, "a KV transfer", kLineLimits);
  if (!message.is_object()) refuse_message("expected a JSON object");
  return message;
}

std::string text_of(const Json& message, const char* name, size_t max_bytes = kMaxMessageBytes) {
  const auto found = message.find(name);
  if (found == message.end() || !found->is_string() ||
      found->get_ref<const std::string&>().size() > max_bytes) {
    refuse_message(fmt::format("expected {}, a text of at most {} bytes", name, max_bytes));
  }
  return found->get<std::string>();
}

int64_t number_of(const Json& message, const char* name, int64_t most) {
  const auto found = message.find(name);
  const bool is_number = found != message.end() && found->is_number_unsigned() &&
                         found->get<uint64_t>() <= static_cast<uint64_t>(most);
  if (!is_number) refuse_message(fmt::format("expected {}, an integer of 0..{}", name, most));
  return found->get<int64_t>();
}

std::string code_of_get(const KvGet& get, std::string_view secret) {
  return KvMac(secret, "get").add(get.id).add(get.nonce).finish();
}

std::string code_of_answer(const KvAnswer& answer, const KvGet& get, std::string_view secret) {
  return KvMac(secret, "answer")
      .add(get.id)
      .add(get.nonce)
      .add(answer.model)
      .add(answer.prompt)
      .add(static_cast<uint64_t>(answer.num_tokens))
      .add(uint64_t{answer.num_bytes})
      .finish();
}

void check_code(const Json& message, std::string_view expected) {
  if (!message.contains("mac")) {
    refuse_message(
        "the other side has no secret, but this one has; give both the same secret_file");
  }
  if (!is_same_code(text_of(message, "mac"), expected)) {
    refuse_message(
        "the other side has another secret, or this is not its message for this request");
  }
}

}  // namespace

std::string write_get(const KvGet& get, std::string_view secret) {
  Json message = {{"op", "get"}, {"id", get.id}, {"nonce", get.nonce}};
  if (!secret.empty()) message["mac"] = code_of_get(get, secret);
  return message.dump();
}

KvGet read_get(std::string_view line, std::string_view secret) {
  const Json message = read_message(line);
  if (text_of(message, "op") != "get") refuse_message("expected op get");
  KvGet get{.id = text_of(message, "id", kMaxIdBytes),
            .nonce = text_of(message, "nonce", kMaxIdBytes)};
  if (get.nonce.size() < kLeastNonceBytes) {
    refuse_message(fmt::format("expected a nonce of at least {} bytes", kLeastNonceBytes));
  }
  if (!secret.empty()) check_code(message, code_of_get(get, secret));
  return get;
}

KvAnswer make_answer(const KvImage& image, const KvGet& get, std::string_view secret) {
  KvAnswer answer{.model = image.model,
                  .prompt = code_of_prompt(image.prompt, get, secret),
                  .num_tokens = image.num_tokens,
                  .num_bytes = image.bytes.bytes().size(),
                  .mac = {}};
  if (!secret.empty()) answer.mac = code_of_answer(answer, get, secret);
  return answer;
}

std::string write_answer(const KvAnswer& answer) {
  Json message = {{"status", "ok"},
                  {"model", answer.model},
                  {"prompt", answer.prompt},
                  {"num_tokens", answer.num_tokens},
                  {"num_bytes", answer.num_bytes}};
  if (!answer.mac.empty()) message["mac"] = answer.mac;
  return message.dump();
}

KvAnswer read_answer(std::string_view line, const KvGet& get, std::string_view secret) {
  const Json message = read_message(line);
  if (text_of(message, "status") != "ok") {
    refuse_message(fmt::format("the other side says: {}", text_of(message, "message")));
  }
  KvAnswer answer{.model = text_of(message, "model"),
                  .prompt = text_of(message, "prompt"),
                  .num_tokens = static_cast<int32_t>(
                      number_of(message, "num_tokens", std::numeric_limits<int32_t>::max())),
                  .num_bytes = static_cast<size_t>(
                      number_of(message, "num_bytes", std::numeric_limits<int64_t>::max())),
                  .mac = {}};
  if (secret.empty()) return answer;
  answer.mac = code_of_answer(answer, get, secret);
  check_code(message, answer.mac);
  return answer;
}

std::string code_of_prompt(std::string_view digest, const KvGet& get, std::string_view secret) {
  return KvMac(secret, "prompt").add(get.nonce).add(digest).finish();
}

KvMac begin_code_of_bytes(const KvAnswer& answer, std::string_view secret) {
  KvMac mac(secret, "bytes");
  mac.add(answer.mac);
  return mac;
}

std::string write_code(std::string_view code) { return Json{{"mac", code}}.dump(); }
std::string read_code(std::string_view line) { return text_of(read_message(line), "mac"); }

std::string write_done(const KvGet& get) { return Json{{"op", "done"}, {"id", get.id}}.dump(); }
bool is_done(std::string_view line) { return text_of(read_message(line), "op") == "done"; }

std::string write_error(std::string_view message) {
  return Json{{"status", "error"}, {"message", message}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise::kv_cache
