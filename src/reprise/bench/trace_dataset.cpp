#include "reprise/bench/trace_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/bench/json_stream.h"
#include "reprise/bench/random_datasets.h"

namespace reprise::bench {
namespace {

// No published trace has longer prompts or answers.
constexpr int64_t kLongest = int64_t{1} << 24;

[[noreturn]] void refuse(const DatasetOptions& options, size_t line, const std::string& why) {
  throw FileError("E_DATASET", options.path.string(), fmt::format("line {}", line), why);
}

void check(const DatasetOptions& options) {
  if (options.timed_trace_chunk_hash_size < 1 || options.timed_trace_chunk_hash_size > kLongest) {
    throw InvalidArgument(fmt::format("--timed-trace-chunk-hash-size: {} is not in 1..{}",
                                      options.timed_trace_chunk_hash_size,
                                      kLongest));
  }
  const double scale = options.timed_trace_sec_multiplier;
  if (!(scale > 0) || std::isinf(scale)) {
    throw InvalidArgument(
        fmt::format("--timed-trace-sec-multiplier: {} is not above 0; it is 1 for seconds and "
                    "0.001 for milliseconds",
                    scale));
  }
}

/// One line of the trace.
struct TraceLine {
  double seconds;
  int64_t input_length;
  int64_t output_length;
  std::vector<uint64_t> hash_ids;
};

class LineReader {
 public:
  LineReader(const DatasetOptions& options, const JsonRecord& record)
      : options_(options), record_(record) {
    if (!record.value.is_object()) refuse(options, record.line, "must be an object");
  }

  [[nodiscard]] TraceLine read() const {
    const Json& time = member(options_.timed_trace_label_timestamp);
    if (!time.is_number() || !std::isfinite(time.get<double>())) {
      refuse_member(options_.timed_trace_label_timestamp, "must be a number");
    }
    return {.seconds = time.get<double>() * options_.timed_trace_sec_multiplier,
            .input_length = length(options_.timed_trace_label_input_length),
            .output_length = length(options_.timed_trace_label_output_length),
            .hash_ids = hash_ids()};
  }

 private:
  [[nodiscard]] const Json& member(const std::string& name) const {
    const auto found = record_.value.find(name);
    if (found == record_.value.end()) refuse_member(name, "is missing");
    return *found;
  }
  [[noreturn]] void refuse_member(const std::string& name, std::string_view why) const {
    refuse(options_, record_.line, fmt::format("\"{}\" {}", name, why));
  }
  [[nodiscard]] int64_t length(const std::string& name) const {
    const Json& value = member(name);
    if (!value.is_number_integer() || value < 1 || value > kLongest) {
      refuse_member(name, fmt::format("must be an integer in 1..{}", kLongest));
    }
    return value.get<int64_t>();
  }
  [[nodiscard]] std::vector<uint64_t> hash_ids() const {
    const std::string& name = options_.timed_trace_label_hash_ids;
    const Json& list = member(name);
    if (!list.is_array()) refuse_member(name, "must be a list of integers");
    std::vector<uint64_t> ids;
    for (const Json& id : list) {
      if (!id.is_number_integer()) refuse_member(name, "must be a list of integers");
      ids.push_back(id.is_number_unsigned() ? id.get<uint64_t>()
                                            : static_cast<uint64_t>(id.get<int64_t>()));
    }
    return ids;
  }

  const DatasetOptions& options_;
  const JsonRecord& record_;
};

std::vector<TraceLine> read_lines(const DatasetOptions& options) {
  JsonStream stream(options.path, JsonStream::Form::lines);
  std::vector<TraceLine> lines;
  JsonRecord record;
  while (lines.size() < static_cast<size_t>(options.num_prompts) && stream.next(record)) {
    lines.push_back(LineReader(options, record).read());
  }
  std::ranges::stable_sort(lines, {}, &TraceLine::seconds);
  return lines;
}

/// The tokens of chunks, each drawn from its id alone.
class Chunks {
 public:
  explicit Chunks(std::span<const int32_t> plain) : plain_(plain) {}

  /// Appends `count` tokens of the chunk.
  void append(uint64_t id, int64_t count, std::vector<int32_t>& ids) {
    std::vector<int32_t>& tokens = tokens_[id];
    if (static_cast<int64_t>(tokens.size()) < count) tokens = draw(id, count);
    ids.insert(ids.end(), tokens.begin(), tokens.begin() + count);
  }

 private:
  [[nodiscard]] std::vector<int32_t> draw(uint64_t id, int64_t count) const {
    RandomSource random(id);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t pick = random.integer(0, static_cast<int64_t>(plain_.size()) - 1);
      tokens.push_back(plain_[static_cast<size_t>(pick)]);
    }
    return tokens;
  }

  std::span<const int32_t> plain_;
  std::map<uint64_t, std::vector<int32_t>> tokens_;
};

}  // namespace

std::vector<SampleRequest> make_timed_trace_requests(const DatasetOptions& options,
                                                     const DatasetTools& tools,
                                                     RandomSource& random) {
  check(options);
  const std::vector<TraceLine> lines = read_lines(options);
  const std::vector<int32_t> plain = plain_token_ids(*tools.tokenizer);
  Chunks chunks(plain);
  std::vector<SampleRequest> requests;
  for (const TraceLine& line : lines) {
    std::vector<int32_t> ids;
    for (const uint64_t id : line.hash_ids) {
      const int64_t left = line.input_length - static_cast<int64_t>(ids.size());
      chunks.append(id, std::min<int64_t>(left, options.timed_trace_chunk_hash_size), ids);
    }
    while (static_cast<int64_t>(ids.size()) < line.input_length) {
      const int64_t pick = random.integer(0, static_cast<int64_t>(plain.size()) - 1);
      ids.push_back(plain[static_cast<size_t>(pick)]);
    }
    SampleRequest request{.prompt = tools.tokenizer->decode(ids)};
    // Neighbouring tokens may merge when the server tokenizes the text, so this may be shorter.
    request.prompt_len = static_cast<int64_t>(tools.tokenizer->encode(request.prompt).size());
    request.output_len = line.output_length;
    request.send_time = line.seconds - lines.front().seconds;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace reprise::bench
