#include "reprise/server/metrics/metrics.h"
#include "reprise/server/openai/generation_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace reprise::server {
namespace {

using ::testing::HasSubstr;

std::string text_of(const api::EngineStats& stats,
                    std::string_view model_name = "m",
                    const HttpMeter& http = {}) {
  const api::StartupReport startup{.max_model_len = 2048};
  const GenerationCounts generations(2048);
  return metrics_text({.engine = stats,
                       .startup = startup,
                       .generations = generations,
                       .http = http,
                       .process = {},
                       .dropped_log_lines = 7,
                       .model_name = model_name});
}

TEST(Metrics, name_what_the_engine_counts_as_vllm_does) {
  const std::string text = text_of({.num_requests_running = 3,
                                    .num_requests_waiting = 2,
                                    .kv_cache_usage = 0.25,
                                    .prompt_tokens = 11,
                                    .generation_tokens = 12345678901,
                                    .num_finished_abort = 4});
  constexpr const char* kLabels = R"({engine="0",model_name="m"})";
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:num_requests_waiting") + kLabels + " 2\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:num_requests_running") + kLabels + " 3\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:kv_cache_usage_perc") + kLabels + " 0.25\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:prompt_tokens_total") + kLabels + " 11\n"));
  EXPECT_THAT(
      text, HasSubstr(std::string("\nvllm:generation_tokens_total") + kLabels + " 12345678901\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nreprise:dropped_log_lines_total") + kLabels + " 7\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(vllm:request_success_total{engine="0",model_name="m",finished_reason="abort"} 4)"));
}

TEST(Metrics, name_what_speculation_counts_as_vllm_does) {
  api::EngineStats stats;
  stats.speculation = decltype(stats.speculation)(2);
  stats.speculation.observe(2, 1);
  stats.speculation.observe(2, 2);
  const std::string text = text_of(stats);
  constexpr const char* kLabels = R"({engine="0",model_name="m"})";
  const auto line = [&](const char* name, int value) {
    return fmt::format("\nvllm:spec_decode_{}{} {}\n", name, kLabels, value);
  };
  EXPECT_THAT(text, HasSubstr(line("num_drafts_total", 2)));
  EXPECT_THAT(text, HasSubstr(line("num_draft_tokens_total", 4)));
  EXPECT_THAT(text, HasSubstr(line("num_accepted_tokens_total", 3)));
  constexpr const char* kPerPosition =
      R"(vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position=)";
  EXPECT_THAT(text, HasSubstr(std::string(kPerPosition) + "\"0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(std::string(kPerPosition) + "\"1\"} 1\n"));
}

TEST(Metrics, count_steps_by_mode_descriptor_and_reason) {
  api::EngineStats stats;
  stats.decisions.push_back({.mode = cudagraph::CudagraphRuntimeMode::FULL,
                             .descriptor = {.num_tokens = 8, .num_reqs = 8, .uniform = true},
                             .reason = cudagraph::DispatchReason::full_uniform,
                             .count = 5});
  EXPECT_THAT(text_of(stats),
              HasSubstr(R"(model_name="m",runtime_mode="FULL",)"
                        R"(descriptor="tokens=8 reqs=8 uniform",reason="full_uniform"} 5)"));
}

TEST(Metrics, cumulate_the_buckets_of_histograms_and_write_bounds_as_the_python_client_does) {
  api::EngineStats stats;
  for (double value : {1.0, 9.0, 99999.0}) stats.tokens_per_step.observe(value);
  const std::string text = text_of(stats);
  const auto bucket = [](const char* bound, int count) {
    return fmt::format(
        "vllm:iteration_tokens_total_bucket{{engine=\"0\",model_name=\"m\",le=\"{}\"}} {}\n",
        bound,
        count);
  };
  EXPECT_THAT(text, HasSubstr(bucket("1.0", 1)));
  EXPECT_THAT(text, HasSubstr(bucket("8.0", 1)));
  EXPECT_THAT(text, HasSubstr(bucket("16.0", 2)));
  EXPECT_THAT(text, HasSubstr(bucket("16384.0", 2)));
  EXPECT_THAT(text, HasSubstr(bucket("+Inf", 3)));
  EXPECT_THAT(text,
              HasSubstr("iteration_tokens_total_sum{engine=\"0\",model_name=\"m\"} 100009\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.001\""));
}

TEST(Metrics, count_http_answers_but_not_probes) {
  HttpMeter meter;
  meter.observe({.handler = "/v1/completions", .method = "POST", .status = 200, .seconds = 0.02});
  meter.observe({.handler = "/v1/completions", .method = "POST", .status = 429});
  meter.observe({.handler = "/metrics", .method = "GET"});
  const std::string text = text_of({}, "m", meter);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nhttp_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("status=\"4xx\"} 1\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("handler=\"/metrics\"")));
  EXPECT_THAT(text, HasSubstr("http_request_duration_highr_seconds_count 2\n"));
}

TEST(Metrics, count_methods_and_statuses_that_do_not_exist_under_one_label) {
  HttpMeter meter;
  for (int i = 0; i < 100; ++i) {
    meter.observe({.handler = "none", .method = fmt::format("MADE-UP-{}", i), .status = 405});
    meter.observe({.handler = "none", .method = "get", .status = 1000 + i});
  }
  for (const char* method : {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}) {
    meter.observe({.handler = "none", .method = method, .status = 404});
  }
  EXPECT_EQ(meter.requests().size(), 9U);
  EXPECT_EQ(meter.durations().size(), 8U);
  const std::string text = text_of({}, "m", meter);
  EXPECT_THAT(
      text,
      HasSubstr("\nhttp_requests_total{handler=\"none\",method=\"other\",status=\"4xx\"} 100\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("MADE-UP")));
}

TEST(Metrics, escape_the_name_of_the_model) {
  EXPECT_THAT(text_of({}, "a\"b\\c\nd"), HasSubstr(R"(model_name="a\"b\\c\nd")"));
}

TEST(Metrics, have_names_of_their_own) {
  std::set<std::string_view> names;
  for (const MetricGroup& group : metric_table()) {
    for (const MetricFamily& family : group.families) {
      EXPECT_TRUE(names.insert(family.name).second) << family.name;
      EXPECT_EQ(family.name.ends_with("_total"),
                family.type == MetricType::counter || family.name == "vllm:iteration_tokens_total")
          << family.name;
    }
  }
}

}  // namespace
}  // namespace reprise::server
