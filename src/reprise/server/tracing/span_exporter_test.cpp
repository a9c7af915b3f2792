#include "reprise/server/tracing/span_exporter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A collector that accepts bodies, refuses them, or makes its sender wait.
class FakeCollector {
 public:
  SendSpans sender() {
    return [state = state_](const std::string& body) {
      std::unique_lock lock(state->mutex);
      ++state->num_calls;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return !state->is_stuck; });
      if (state->refuses) throw Error("refused");
      state->bodies.push_back(body);
    };
  }
  void set_stuck(bool is_stuck) {
    const std::lock_guard lock(state_->mutex);
    state_->is_stuck = is_stuck;
    state_->changed.notify_all();
  }
  void refuse() { state_->refuses = true; }
  void wait_for_call() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->num_calls > 0; });
  }
  /// The numbers of spans in each body.
  std::vector<size_t> sizes() {
    const std::lock_guard lock(state_->mutex);
    std::vector<size_t> sizes;
    for (const std::string& body : state_->bodies) {
      sizes.push_back(
          parse_json(body, "body")["resourceSpans"][0]["scopeSpans"][0]["spans"].size());
    }
    return sizes;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> bodies;
    int num_calls = 0;
    bool is_stuck = false;
    bool refuses = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Log silent_log() { return Log({.least = LogLevel::error}); }

TEST(SpanExporter, sends_what_waits_together) {
  FakeCollector collector;
  {
    SpanExporter exporter(
        {.max_batch = 3, .delay = seconds(300)}, collector.sender(), silent_log());
    for (int i = 0; i < 7; ++i) exporter.add({.name = "s"});
  }  // the end sends what is left, without waiting for more
  EXPECT_EQ(collector.sizes(), (std::vector<size_t>{3, 3, 1}));
}

TEST(SpanExporter, drops_and_counts_what_is_beyond_its_limit) {
  FakeCollector collector;
  collector.set_stuck(true);
  SpanExporter exporter({.max_waiting = 4, .max_batch = 1, .delay = milliseconds(0)},
                        collector.sender(),
                        silent_log());
  exporter.add({.name = "s"});
  collector.wait_for_call();  // this span does not wait any more
  for (int i = 0; i < 4; ++i) exporter.add({.name = "s"});
  EXPECT_EQ(exporter.counts().num_dropped, 0U);
  for (int i = 0; i < 3; ++i) exporter.add({.name = "s"});
  EXPECT_EQ(exporter.counts().num_dropped, 3U);
  collector.set_stuck(false);
}

TEST(SpanExporter, counts_what_the_collector_does_not_take) {
  FakeCollector collector;
  collector.refuse();
  SpanExporter exporter(
      {.max_batch = 2, .delay = milliseconds(0)}, collector.sender(), silent_log());
  exporter.add({.name = "s"});
  const auto deadline = std::chrono::steady_clock::now() + seconds(300);
  while (exporter.counts().num_dropped < 1 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(exporter.counts().num_dropped, 1U);
  EXPECT_EQ(exporter.counts().num_exported, 0U);
}

TEST(SpanExporter, ends_although_the_collector_does_not_answer) {
  FakeCollector collector;
  collector.set_stuck(true);
  auto exporter = std::make_unique<SpanExporter>(
      SpanExporterOptions{.delay = milliseconds(0)}, collector.sender(), silent_log());
  exporter->add({.name = "s"});
  collector.wait_for_call();
  const auto began = std::chrono::steady_clock::now();
  exporter.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
  collector.set_stuck(false);
}

TEST(OtlpJson, follows_the_rules_of_the_encoding) {
  Span span{.trace_id = "0af7651916cd43dd8448eb211c80319c",
            .span_id = "b7ad6b7169203331",
            .parent_span_id = "00f067aa0ba902b7",
            .trace_state = "a=b",
            .name = "llm_request",
            .start_ns = 1'764'340'000'123'456'789,
            .end_ns = 1'764'340'001'123'456'789,
            .error = "failed"};
  span.attributes.emplace_back("count", int64_t{9'007'199'254'740'993});
  span.attributes.emplace_back("seconds", 0.25);
  span.attributes.emplace_back("text", std::string("a\n\xff"));
  span.attributes.emplace_back("list", std::vector<std::string>{"x", "y"});
  const Json json =
      parse_json(otlp_json(std::vector{span}, {.service_name = "me", .version = "1"}), "request");
  const Json& resource = json["resourceSpans"][0];
  EXPECT_EQ(resource["resource"]["attributes"][0].dump(),
            R"({"key":"service.name","value":{"stringValue":"me"}})");
  const Json& out = resource["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(out["traceId"], span.trace_id);
  EXPECT_EQ(out["spanId"], span.span_id);
  EXPECT_EQ(out["parentSpanId"], span.parent_span_id);
  EXPECT_EQ(out["traceState"], "a=b");
  EXPECT_EQ(out["flags"], 0x301);
  EXPECT_EQ(out["kind"], 2);
  EXPECT_EQ(out["startTimeUnixNano"], "1764340000123456789");
  EXPECT_EQ(out["endTimeUnixNano"], "1764340001123456789");
  EXPECT_EQ(out["attributes"][0]["value"].dump(), R"({"intValue":"9007199254740993"})");
  EXPECT_EQ(out["attributes"][1]["value"].dump(), R"({"doubleValue":0.25})");
  EXPECT_EQ(out["attributes"][2]["value"]["stringValue"], "a\n\ufffd");
  EXPECT_EQ(out["attributes"][3]["value"].dump(),
            R"({"arrayValue":{"values":[{"stringValue":"x"},{"stringValue":"y"}]}})");
  EXPECT_EQ(out["status"].dump(), R"({"message":"failed","code":2})");
}

}  // namespace
}  // namespace reprise::server
