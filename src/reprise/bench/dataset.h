#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/bench/random_source.h"
#include "reprise/bench/request_outcome.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::bench {

/// The prompts to send; the members are named like vLLM's options.
struct DatasetOptions {
  std::string name = "random";
  std::filesystem::path path;  // only for datasets that are files
  int32_t num_prompts = 1000;
  bool no_oversample =
      false;  // sends fewer requests when the file is short, instead of repeating requests
  bool disable_shuffle = false;

  int32_t random_input_len = 1024;
  int32_t random_output_len = 128;
  double random_range_ratio = 0;  // lengths vary by this share, evenly
  int32_t random_prefix_len = 0;  // tokens at the start of all prompts, added to the length

  std::optional<int32_t> sharegpt_output_len;  // unset: the length of the answer in the file

  int32_t sonnet_input_len = 550;
  int32_t sonnet_output_len = 150;
  int32_t sonnet_prefix_len = 200;

  int32_t custom_output_len = 256;
  bool skip_chat_template = false;

  int32_t prefix_repetition_prefix_len = 256;
  int32_t prefix_repetition_suffix_len = 256;
  int32_t prefix_repetition_num_prefixes = 10;
  int32_t prefix_repetition_output_len = 128;

  int32_t timed_trace_chunk_hash_size = 16;  // tokens of a chunk that has an id
  double timed_trace_sec_multiplier = 1;     // seconds of one unit of the trace's times
  std::string timed_trace_label_timestamp = "timestamp";
  std::string timed_trace_label_input_length = "input_length";
  std::string timed_trace_label_output_length = "output_length";
  std::string timed_trace_label_hash_ids = "hash_ids";
};

/// What the prompts are made with besides the options: the tokenizer and the functions of the
/// server's model.
struct DatasetTools {
  const tokenizer::Tokenizer* tokenizer = nullptr;  // must outlive the call
  /// Renders one user's message with the model's template.
  std::function<std::string(const std::string& content)> apply_chat_template;
  bool sends_messages = false;  // the server applies the template, so prompts stay plain text
};

/// \throws InvalidArgument naming the option, FileError naming the file and the line
[[nodiscard]] std::vector<SampleRequest> make_requests(const DatasetOptions& options,
                                                       const DatasetTools& tools,
                                                       RandomSource& random);

/// The values of --dataset-name.
[[nodiscard]] std::string dataset_names();

}  // namespace reprise::bench
