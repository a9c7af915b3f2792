#include "reprise/bench/file_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "reprise/base/error.h"
#include "reprise/bench/json_stream.h"

namespace reprise::bench {
namespace {

using tokenizer::Tokenizer;

// vLLM's rules for which turns of a conversation make a request, in tokens.
constexpr int64_t kMinLen = 4;
constexpr int64_t kMaxPromptLen = 1024;
constexpr int64_t kMaxTotalLen = 2048;
// This many candidates are kept per wanted request, because some will be too short or too long.
constexpr size_t kCandidatesPerRequest = 4;
constexpr size_t kMinCandidates = 256;
// No prompt that the rules allow has more bytes. The limit bounds the memory of the candidates.
constexpr size_t kMaxCandidateBytes = size_t{64} << 10;
// Largest text file from which prompts are drawn.
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr int kMaxMisses = 10000;

[[noreturn]] void refuse(const DatasetOptions& options, size_t line, std::string_view why) {
  throw FileError("E_DATASET", options.path.string(), fmt::format("line {}", line), why);
}

int64_t count_tokens(const Tokenizer& tokenizer, const std::string& text) {
  return static_cast<int64_t>(tokenizer.encode(text).size());
}

/// Takes a uniform random sample of a stream of unknown length (algorithm R).
template <typename T>
class Reservoir {
 public:
  Reservoir(size_t capacity, RandomSource& random) : capacity_(capacity), random_(&random) {}

  void offer(T item) {
    ++num_offered_;
    if (items_.size() < capacity_) {
      items_.push_back(std::move(item));
      return;
    }
    const auto slot = static_cast<size_t>(random_->integer(0, num_offered_ - 1));
    if (slot < capacity_) items_[slot] = std::move(item);
  }
  [[nodiscard]] bool is_full() const noexcept { return items_.size() >= capacity_; }
  [[nodiscard]] std::vector<T>& items() noexcept { return items_; }

 private:
  size_t capacity_;
  RandomSource* random_;
  int64_t num_offered_ = 0;
  std::vector<T> items_;
};

struct Turns {
  std::string prompt;
  std::string answer;
};

const std::string& turn_text(const DatasetOptions& options,
                             const JsonRecord& record,
                             size_t index) {
  const Json& turn = record.value["conversations"][index];
  if (!turn.is_object() || !turn.contains("value") || !turn["value"].is_string()) {
    refuse(options,
           record.line,
           fmt::format("conversations[{}] must be an object with the string \"value\"", index));
  }
  return turn["value"].get_ref<const std::string&>();
}

std::vector<Turns> sharegpt_candidates(const DatasetOptions& options, RandomSource& random) {
  const size_t capacity =
      std::max(kMinCandidates, static_cast<size_t>(options.num_prompts) * kCandidatesPerRequest);
  Reservoir<Turns> candidates(capacity, random);
  JsonStream stream(options.path, JsonStream::Form::array);
  JsonRecord record;
  while (stream.next(record)) {
    if (!record.value.is_object()) refuse(options, record.line, "expected an object");
    const auto found = record.value.find("conversations");
    if (found == record.value.end()) continue;
    if (!found->is_array()) refuse(options, record.line, "\"conversations\" must be an array");
    if (found->size() < 2) continue;
    Turns turns{turn_text(options, record, 0), turn_text(options, record, 1)};
    if (turns.prompt.size() + turns.answer.size() > kMaxCandidateBytes) continue;
    candidates.offer(std::move(turns));
    if (options.disable_shuffle && candidates.is_full()) break;
  }
  if (!options.disable_shuffle) random.shuffle(candidates.items());
  return std::move(candidates.items());
}

std::vector<std::string> read_lines(const DatasetOptions& options) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(options.path, error);
  std::ifstream file(options.path, std::ios::binary);
  if (error || !file) {
    throw FileError("E_DATASET", options.path.string(), "", "is not a file that can be read");
  }
  if (bytes > kMaxTextBytes) {
    throw FileError("E_DATASET", options.path.string(), "", "is longer than 64 MiB");
  }
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line)) lines.push_back(line + "\n");
  if (lines.empty()) throw FileError("E_DATASET", options.path.string(), "", "has no lines");
  return lines;
}

}  // namespace

std::vector<SampleRequest> make_sharegpt_requests(const DatasetOptions& options,
                                                  const DatasetTools& tools,
                                                  RandomSource& random) {
  std::vector<SampleRequest> requests;
  for (Turns& turns : sharegpt_candidates(options, random)) {
    if (requests.size() == static_cast<size_t>(options.num_prompts)) break;
    const int64_t prompt_len = count_tokens(*tools.tokenizer, turns.prompt);
    const int64_t output_len = options.sharegpt_output_len
                                   ? *options.sharegpt_output_len
                                   : count_tokens(*tools.tokenizer, turns.answer);
    const bool is_too_short =
        prompt_len < kMinLen || (!options.sharegpt_output_len && output_len < kMinLen);
    const bool is_too_long = prompt_len > kMaxPromptLen || prompt_len + output_len > kMaxTotalLen;
    if (is_too_short || is_too_long) continue;
    requests.push_back({std::move(turns.prompt), prompt_len, output_len});
  }
  return requests;
}

std::vector<SampleRequest> make_sonnet_requests(const DatasetOptions& options,
                                                const DatasetTools& tools,
                                                RandomSource& random) {
  const std::vector<std::string> lines = read_lines(options);
  const Tokenizer& tokenizer = *tools.tokenizer;
  int64_t num_tokens = 0;
  for (const std::string& line : lines) num_tokens += count_tokens(tokenizer, line);
  const double per_line =
      std::max(1.0, static_cast<double>(num_tokens) / static_cast<double>(lines.size()));

  const std::string task = "Pick as many lines as you can from these poem lines:\n";
  const int64_t base = count_tokens(tokenizer, tools.apply_chat_template(task));
  if (options.sonnet_input_len <= base) {
    throw InvalidArgument(
        fmt::format("--sonnet-input-len: {} is not more than the {} tokens of the task itself",
                    options.sonnet_input_len,
                    base));
  }
  const auto lines_for = [&](int32_t length) {
    const double count = std::nearbyint(static_cast<double>(length - base) / per_line);
    return static_cast<int64_t>(std::max(count, 0.0));
  };
  const int64_t num_lines = lines_for(options.sonnet_input_len);
  const int64_t num_prefix = std::min(lines_for(options.sonnet_prefix_len),
                                      std::min(num_lines, static_cast<int64_t>(lines.size())));
  const std::string begin = std::accumulate(lines.begin(), lines.begin() + num_prefix, task);

  std::vector<SampleRequest> requests;
  int misses = 0;
  while (requests.size() < static_cast<size_t>(options.num_prompts)) {
    std::string prompt = begin;
    for (int64_t i = num_prefix; i < num_lines; ++i) {
      prompt +=
          lines[static_cast<size_t>(random.integer(0, static_cast<int64_t>(lines.size()) - 1))];
    }
    std::string whole = tools.apply_chat_template(prompt);
    const int64_t prompt_len = count_tokens(tokenizer, whole);
    // Lines differ in length, so a prompt may become too long: then draw again.
    if (prompt_len > options.sonnet_input_len) {
      if (++misses < kMaxMisses) continue;
      throw InvalidArgument(fmt::format(
          "--sonnet-input-len: lines of {} hardly ever fit into {} tokens; give it more room",
          options.path.string(),
          options.sonnet_input_len));
    }
    requests.push_back({tools.sends_messages ? std::move(prompt) : std::move(whole),
                        prompt_len,
                        options.sonnet_output_len});
  }
  return requests;
}

std::vector<SampleRequest> make_custom_requests(const DatasetOptions& options,
                                                const DatasetTools& tools,
                                                RandomSource& random) {
  if (options.custom_output_len < 1 && options.custom_output_len != -1) {
    throw InvalidArgument(
        fmt::format("--custom-output-len: {} is neither positive nor -1, which takes "
                    "\"output_tokens\" of each line",
                    options.custom_output_len));
  }
  const auto wanted = static_cast<size_t>(options.num_prompts);
  Reservoir<SampleRequest> picked(wanted, random);
  JsonStream stream(options.path, JsonStream::Form::lines);
  JsonRecord record;
  while (stream.next(record)) {
    if (!record.value.is_object() || !record.value.contains("prompt") ||
        !record.value["prompt"].is_string()) {
      refuse(options, record.line, "expected an object with the string \"prompt\"");
    }
    SampleRequest request{.prompt = record.value["prompt"],
                          .output_len = options.custom_output_len};
    if (options.custom_output_len == -1) {
      const auto length = record.value.find("output_tokens");
      const bool is_length = length != record.value.end() && length->is_number_integer() &&
                             *length > 0 && *length <= INT32_MAX;
      if (!is_length) {
        refuse(options,
               record.line,
               "expected the positive number \"output_tokens\", as --custom-output-len is -1");
      }
      request.output_len = *length;
    }
    picked.offer(std::move(request));
    if (options.disable_shuffle && picked.is_full()) break;
  }
  std::vector<SampleRequest> requests = std::move(picked.items());
  if (!options.disable_shuffle) random.shuffle(requests);
  for (SampleRequest& request : requests) {
    std::string whole =
        options.skip_chat_template ? request.prompt : tools.apply_chat_template(request.prompt);
    request.prompt_len = count_tokens(*tools.tokenizer, whole);
    if (!tools.sends_messages) request.prompt = std::move(whole);
  }
  return requests;
}

}  // namespace reprise::bench
