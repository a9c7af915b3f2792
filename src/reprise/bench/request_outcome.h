#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::bench {

/// One request of a workload.
struct SampleRequest {
  std::string prompt;
  int64_t prompt_len = 0;           // in tokens, counted with our tokenizer
  int64_t output_len = 0;           // tokens asked for
  std::optional<double> send_time;  // seconds after the first request, if the dataset has times
};

/// The outcome of one request. Times are in seconds, measured by the client.
struct RequestOutcome {
  bool success = false;
  std::string error;  // why the request failed
  std::string generated_text;
  int64_t prompt_len = 0;
  int64_t output_tokens = 0;  // from the server's usage; 0 if the server sent none
  double start_time = 0;      // when the request was sent, from the start of the run
  double queue_time = 0;      // time spent waiting for --max-concurrency before that
  double ttft = 0;          // from sending to the first message with a choice, with or without text
  double latency = 0;       // from sending to the last message with a choice
  std::vector<double> itl;  // between two messages with a choice: per chunk, not per token
};

}  // namespace reprise::bench
