#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::bench {

/// One request of a workload.
struct SampleRequest {
  std::string prompt;
  int64_t prompt_len = 0;  // tokens, by our tokenizer
  int64_t output_len = 0;  // tokens asked for
};

/// What became of one request. Times in seconds, as the client saw them.
struct RequestOutcome {
  bool success = false;
  std::string error;  // why not
  std::string generated_text;
  int64_t prompt_len = 0;
  int64_t output_tokens = 0;  // by the server's usage; 0: it sent none
  double start_time = 0;      // when it was sent, counted from the start of the run
  double queue_time = 0;      // before that, waiting for --max-concurrency
  double ttft = 0;            // until the first message with a choice, whatever its text
  double latency = 0;         // until the last one
  std::vector<double> itl;    // between messages with a choice: per chunk, not per token
};

}  // namespace reprise::bench
