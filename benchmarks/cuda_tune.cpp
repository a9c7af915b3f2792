#include "benchmarks/cuda_tune.h"

#include <array>
#include <map>
#include <string>

#include "reprise/kernels/tunable_products.h"

namespace reprise::benchmark {
namespace {

constexpr std::array kRequests = {1, 8, 16, 32, 64};
constexpr int32_t kMostTokens = 64;

/// The percentage of a step that choices save. One and eight requests: by card_model.py, if
/// streamed kernels are as it assumes. Others: by arithmetic from the products that an H200
/// measured on 2026-11-28 (own kernels, cuBLASLt's first suggestion, 2 us for each launch more).
double predicted_percent(std::string_view shape, int32_t requests) {
  if (requests == 1) return shape == "0.5b" ? 31 : (shape == "1b" ? 30 : 22);
  if (requests == 8) return shape == "0.5b" ? 28 : (shape == "1b" ? 22 : 12);
  return shape == "8b" && requests == 16 ? 0.7 : 0;
}

std::map<int32_t, double> step_times(Engine& engine) {
  std::map<int32_t, double> microseconds;
  for (const int32_t requests : kRequests) {
    std::vector<double> times;
    for (int i = 0; i < 40; ++i) {
      times.push_back(1e6 * seconds_of([&] { engine.step(requests, 1); }));
    }
    microseconds[requests] = median(times);
  }
  return microseconds;
}

void log_choices(std::string_view shape, const kernels::ProductTable& table, RowLog& log) {
  for (const auto& [product, rows] : table.products()) {
    for (const auto& [count, measured] : rows) {
      log.add("product",
              {{"model", shape},
               {"product", describe(product)},
               {"rows", count},
               {"choice", describe(measured.choice)},
               {"us", measured.microseconds},
               {"rule_us", measured.built_in_microseconds}});
    }
  }
}

void measure_shape(const Gpu& gpu, const char* shape, RowLog& log) {
  const weights::ModelConfig config =
      weights::parse_model_config(config_of(shape), "config").config;
  Engine engine(gpu, config, CudagraphMode::FULL, kMostTokens, log.folder());
  const std::map<int32_t, double> by_rule = step_times(engine);
  kernels::TunableProducts& products = *engine.executor().tunable_products();
  kernels::ProductTable table;
  const double seconds = seconds_of([&] {
    for (const int32_t tokens : kRequests) {
      products.watch();
      engine.runner().dummy_run({.mode = cudagraph::CudagraphRuntimeMode::NONE,
                                 .descriptor = {.num_tokens = tokens},
                                 .target_mode = cudagraph::CudagraphRuntimeMode::FULL});
      products.measure(table);
    }
  });
  log.add("tuned",
          {{"model", shape},
           {"seconds", seconds},
           {"num_measured", table.num_measured()},
           {"num_changed", table.num_changed()}});
  log_choices(shape, table, log);
  engine.drop_graphs();
  if (const std::vector<std::string> left_out = products.use(table); !left_out.empty()) {
    throw Error("a measured choice is refused: " + left_out.front());
  }
  engine.set_mode(config, CudagraphMode::FULL, kMostTokens);
  for (const auto& [requests, microseconds] : step_times(engine)) {
    const double rule = by_rule.at(requests);
    log.add("step",
            {{"model", shape},
             {"requests", requests},
             {"rule_us", rule},
             {"tuned_us", microseconds},
             {"saved_percent", 100 * (1 - microseconds / rule)},
             {"predicted_percent", predicted_percent(shape, requests)}});
  }
}

}  // namespace

void measure_tuning(const Gpu& gpu, double seconds, RowLog& log) {
  const Clock::time_point start = Clock::now();
  for (const char* shape : {"0.5b", "1b", "8b"}) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (spent > seconds / 2) return;  // the next shape takes longer than the ones before it
    measure_shape(gpu, shape, log);
  }
}

}  // namespace reprise::benchmark
