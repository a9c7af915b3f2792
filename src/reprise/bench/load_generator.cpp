#include "reprise/bench/load_generator.h"

#include <fmt/format.h>

#include <deque>
#include <memory>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/bench/stream_reader.h"

namespace reprise::bench {
namespace {

using http_client::Clock;
using http_client::HttpCall;
using http_client::HttpClient;
using http_client::HttpHead;

constexpr size_t kMaxErrorBytes =
    4096;  // bytes kept of an answer that is not 200, as the reason of the failure

/// One run. A request first waits for its send time, then for a free slot (max_concurrency), and is
/// then sent.
class Run {
 public:
  Run(HttpClient& client,
      const LoadOptions& options,
      const std::vector<SampleRequest>& requests,
      const std::function<void()>& on_finished)
      : client_(&client), options_(&options), requests_(&requests), on_finished_(&on_finished) {
    result_.outcomes.resize(requests.size());
    arrivals_.resize(requests.size());
  }

  LoadResult run() {
    // All bodies are built before the clock starts.
    for (const SampleRequest& request : *requests_) {
      bodies_.push_back(request_body(options_->request, request)
                            .dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    begin_ = Clock::now();
    wait_for_arrival(0);
    client_->run();
    result_.duration = seconds_since_begin();
    return std::move(result_);
  }

 private:
  // The state of reading one answer.
  struct Answer {
    explicit Answer(std::function<void(std::string_view)> on_data) : reader(std::move(on_data)) {}
    StreamReader reader;
    int status = 0;
    std::string reason;
    std::string error_body;
    std::string error;
    bool has_first = false;
    double last = 0;  // time of the last message with a choice
  };

  [[nodiscard]] double seconds_since_begin() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  // Sends all requests that are due, then sets the run's only timer to the next send time.
  void wait_for_arrival(size_t index) {
    while (index < requests_->size() && options_->send_times[index] <= seconds_since_begin()) {
      arrive(index++);
    }
    if (index == requests_->size()) return;
    const auto delay = std::chrono::duration<double>(options_->send_times[index]);
    client_->at(begin_ + std::chrono::duration_cast<Clock::duration>(delay),
                [this, index] { wait_for_arrival(index); });
  }

  void arrive(size_t index) {
    arrivals_[index] = seconds_since_begin();
    if (options_->max_concurrency && num_running_ >= *options_->max_concurrency) {
      waiting_.push_back(index);
    } else {
      start(index);
    }
  }

  void start(size_t index) {
    ++num_running_;
    RequestOutcome& outcome = result_.outcomes[index];
    outcome.prompt_len = (*requests_)[index].prompt_len;
    auto answer = std::make_shared<Answer>([](std::string_view) {});
    Answer* raw = answer.get();
    answer->reader = StreamReader([this, index, raw](std::string_view data) {
      on_message(result_.outcomes[index], *raw, parse_stream_message(data));
    });
    HttpCall call{.method = "POST",
                  .target = options_->request.endpoint,
                  .headers = options_->request.headers,
                  .body = std::move(bodies_[index])};
    if (!options_->request.request_id_prefix.empty()) {
      call.headers.emplace_back("x-request-id",
                                fmt::format("{}{}", options_->request.request_id_prefix, index));
    }
    outcome.start_time = seconds_since_begin();
    outcome.queue_time = outcome.start_time - arrivals_[index];
    client_->send(std::move(call),
                  {.on_head =
                       [answer](const HttpHead& head) {
                         answer->status = head.status;
                         answer->reason = head.reason;
                       },
                   .on_piece = [answer](std::string_view piece) { take_piece(*answer, piece); },
                   .on_end = [this, index, answer](
                                 const std::string& error) { finish(index, *answer, error); }});
  }

  static void take_piece(Answer& answer, std::string_view piece) {
    if (answer.status != 200) {
      if (answer.error_body.size() < kMaxErrorBytes) answer.error_body += piece;
      return;
    }
    if (!answer.error.empty()) return;
    try {
      answer.reader.feed(piece);
    } catch (const InvalidArgument& error) {
      answer.error = error.what();
    }
  }

  void on_message(RequestOutcome& outcome, Answer& answer, const StreamMessage& message) const {
    if (!message.error.empty() && answer.error.empty()) answer.error = message.error;
    if (message.completion_tokens) outcome.output_tokens = *message.completion_tokens;
    if (!message.has_choice) return;
    const double now = seconds_since_begin();
    if (!answer.has_first) {
      answer.has_first = true;
      outcome.ttft = now - outcome.start_time;
    } else {
      outcome.itl.push_back(now - answer.last);
    }
    answer.last = now;
    outcome.latency = now - outcome.start_time;
    outcome.generated_text += message.text;
  }

  void finish(size_t index, Answer& answer, const std::string& transport_error) {
    RequestOutcome& outcome = result_.outcomes[index];
    if (answer.status == 200 && answer.error.empty() && transport_error.empty()) {
      try {
        answer.reader.finish();
      } catch (const InvalidArgument& error) {
        answer.error = error.what();
      }
    }
    if (!transport_error.empty()) {
      outcome.error = transport_error;
    } else if (answer.status != 200) {
      outcome.error = fmt::format("{} {}: {}", answer.status, answer.reason, answer.error_body);
    } else if (!answer.error.empty()) {
      outcome.error = answer.error;
    } else if (!answer.has_first) {
      outcome.error = "the stream ended without any choice";
    } else {
      outcome.success = true;
    }
    --num_running_;
    if (*on_finished_) (*on_finished_)();
    if (!waiting_.empty()) {
      const size_t next = waiting_.front();
      waiting_.pop_front();
      start(next);
    }
  }

  HttpClient* client_;
  const LoadOptions* options_;
  const std::vector<SampleRequest>* requests_;
  const std::function<void()>* on_finished_;
  LoadResult result_;
  std::vector<std::string> bodies_;
  std::vector<double> arrivals_;
  std::deque<size_t> waiting_;
  int64_t num_running_ = 0;
  Clock::time_point begin_;
};

}  // namespace

Json request_body(const RequestOptions& options, const SampleRequest& request) {
  Json body = {{"model", options.model}};
  if (options.backend == Backend::chat) {
    const Json part = {{"type", "text"}, {"text", request.prompt}};
    body["messages"] = Json::array({{{"role", "user"}, {"content", Json::array({part})}}});
    body["max_completion_tokens"] = request.output_len;
  } else {
    body["prompt"] = request.prompt;
    body["repetition_penalty"] = 1.0;
    body["max_tokens"] = request.output_len;
    body["logprobs"] = options.logprobs ? Json(*options.logprobs) : Json(nullptr);
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  for (const auto& [name, value] : options.extra_body.items()) body[name] = value;
  return body;
}

LoadResult generate_load(http_client::HttpClient& client,
                         const LoadOptions& options,
                         const std::vector<SampleRequest>& requests,
                         const std::function<void()>& on_finished) {
  REPRISE_ASSERT(options.send_times.size() == requests.size(),
                 "there must be one send time per request");
  return Run(client, options, requests, on_finished).run();
}

}  // namespace reprise::bench
