#include "reprise/api/loading/product_tuning.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/product_table_file.h"
#include "reprise/api/options/cache_folders.h"
#include "reprise/api/options/product_report.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/kernels/tunable_products.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {
namespace {

using kernels::ProductTable;
using kernels::TunableProducts;

/// --tune, or the same in vLLM's words.
bool wants_measuring(const LoadedEngine& engine) {
  return engine.args.tune.value_or(engine.options->graph_inputs.compilation.wants_autotuning());
}

ProductTableFile file_of(const LoadedEngine& engine, const TunableProducts& products) {
  return ProductTableFile({.root = tuned_products_root(engine.args.compile_cache_root),
                           .identity = products.identity(),
                           .step_hook = {}});
}

/// Runs steps of all sizes and measures the products in them that the table lacks.
void measure(TunableProducts& products,
             runner::ModelRunner& runner,
             int32_t most_tokens,
             ProductTable& table) {
  for (const int32_t num_tokens : tuned_token_counts(runner, most_tokens)) {
    products.watch();
    runner.dummy_run({.purpose = cudagraph::DummyRun::Purpose::warm_up,
                      .mode = cudagraph::CudagraphRuntimeMode::NONE,
                      .descriptor = {.num_tokens = num_tokens, .has_lora = runner.has_adapters()},
                      .target_mode = cudagraph::CudagraphRuntimeMode::FULL});
    products.measure(table);
  }
}

void warn(LoadedEngine& engine, std::string text) {
  engine.report.warnings.push_back(std::move(text));
}

/// The table of this device; empty if there is none.
ProductTable read_table(LoadedEngine& engine, const ProductTableFile& file) {
  ProductTableFile::Read read = file.read();
  if (read.is_broken) {
    warn(engine,
         fmt::format("measured choices of products are not used: {}; the built-in rules hold. "
                     "`reprise tune MODEL` measures again",
                     read.reason));
  }
  return std::move(read.table);
}

/// Adds what was measured to the file. \returns what all starts will use from now on
ProductTable publish(LoadedEngine& engine,
                     const ProductTableFile& file,
                     const ProductTable& measured) {
  const auto known =
      engine.args.tune_again ? ProductTableFile::Known::replaced : ProductTableFile::Known::kept;
  ProductTableFile::Saved saved = file.add(measured, known);
  if (!saved.reason.empty()) {
    warn(engine,
         fmt::format("--tune: the choices are used in this start only, because they cannot be "
                     "stored: {}",
                     saved.reason));
  }
  return std::move(saved.table);
}

/// The choices of `all` that `table` lacks, or all of them.
ProductTable new_choices(const ProductTable& all, const ProductTable& table, bool has_replaced) {
  ProductTable found;
  for (const auto& [shape, rows] : all.products()) {
    for (const auto& [count, measured] : rows) {
      if (has_replaced || !table.has(shape, count)) found.set(shape, count, measured);
    }
  }
  return found;
}

/// Measures what `table` lacks, and stores it.
ProductReport tune(LoadedEngine& engine,
                   LoadedEngine* draft,
                   TunableProducts& products,
                   const ProductTableFile& file,
                   ProductTable table) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ProductTable known = engine.args.tune_again ? ProductTable() : table;
  for (LoadedEngine* model : {&engine, draft}) {
    if (model == nullptr) continue;
    measure(products, *model->runner, model->args.max_num_batched_tokens, known);
  }
  const ProductTable measured = new_choices(known, table, engine.args.tune_again);
  ProductReport report;
  if (!measured.is_empty()) {
    ProductTable stored = publish(engine, file, measured);
    stored.merge(table);  // of a file that could not be read again
    table = std::move(stored);
  }
  // Another process may have stored its choices first; then those are in use.
  for (const auto& [shape, rows] : measured.products()) {
    for (const auto& [count, mine] : rows) {
      report.measured.set(shape, count, table.products().at(shape).at(count));
    }
  }
  report.table = std::move(table);
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

/// From here on the engine follows the table of the report.
void follow(LoadedEngine& engine,
            TunableProducts& products,
            const ProductTableFile& file,
            ProductReport report) {
  report.file = file.path().string();
  report.left_out = products.use(report.table);
  for (const std::string& sentence : report.left_out) {
    warn(engine, fmt::format("a measured choice is left out, its rule is used: {}", sentence));
  }
  engine.report.products = std::make_shared<const ProductReport>(std::move(report));
}

}  // namespace

void check_tuning(const LoadedEngine& engine) {
  const EngineArgs& args = engine.args;
  if (!wants_measuring(engine)) return;
  if (args.ranks_per_engine() > 1 || args.is_in_lockstep()) {
    throw InvalidArgument(
        "--tune: engines that run their steps together cannot measure products, because each of "
        "them would wait for the others; tune with one rank, or leave the option out: ranks use "
        "the choices that an earlier start has measured");
  }
}

void use_stored_products(LoadedEngine& engine) {
  TunableProducts* products = engine.device->execution->executor().tunable_products();
  if (products == nullptr || engine.args.tune == false) return;
  const ProductTableFile file = file_of(engine, *products);
  ProductReport report;
  report.table = read_table(engine, file);
  follow(engine, *products, file, std::move(report));
}

void choose_products(LoadedEngine& engine, LoadedEngine* draft, const StartupObserver& observer) {
  if (engine.report.products != nullptr) return;  // a second runner of the same start
  if (!wants_measuring(engine)) return use_stored_products(engine);
  TunableProducts* products = engine.device->execution->executor().tunable_products();
  if (products == nullptr) return warn(engine, kNothingToTune);
  if (observer.on_stage) observer.on_stage("measuring products");
  const ProductTableFile file = file_of(engine, *products);
  follow(engine, *products, file, tune(engine, draft, *products, file, read_table(engine, file)));
}

std::vector<int32_t> tuned_token_counts(const runner::ModelRunner& runner, int32_t most_tokens) {
  std::set<int32_t> counts;
  for (int32_t power = 1; power < most_tokens; power *= 2) counts.insert(power);
  counts.insert(most_tokens);
  for (const cudagraph::CaptureGroup& group : runner.dispatcher().capture_plan()) {
    for (const cudagraph::BatchDescriptor& descriptor : group.descriptors) {
      counts.insert(descriptor.num_tokens);
    }
  }
  return {counts.begin(), counts.end()};
}

}  // namespace reprise::api
