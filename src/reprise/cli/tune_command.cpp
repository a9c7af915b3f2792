#include <fmt/format.h>

#include <memory>
#include <vector>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/product_tuning.h"
#include "reprise/api/options/product_report.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/thread_trials.h"
#include "reprise/cli/tuned_products_text.h"

namespace reprise::cli {
namespace {

struct TuneArguments {
  api::EngineArgs engine;
  bool json = false;
};

OptionTable make_table(TuneArguments& arguments) {
  OptionTable table(
      "reprise tune MODEL [options]",
      "Measures on this GPU which kernel is fastest for each matrix product of a model, at the "
      "sizes of its graphs, and stores the choices; later starts of any command use them. Give the "
      "options of the later starts: they decide which products there are. On a CPU it compares "
      "numbers of threads, and stores nothing.");
  table.add_switch("again",
                   "Measuring",
                   "Also measure what is stored already, and replace it. Answers may then have "
                   "other last bits than before.",
                   arguments.engine.tune_again);
  table.add_switch("json", "Output", "One JSON object.", arguments.json);
  add_engine_options(table, arguments.engine);
  return table;
}

void print_result(const api::ProductReport& products) {
  if (products.measured.is_empty()) {
    fmt::print("nothing measured: all {} choices for these products are stored already\n",
               products.table.num_measured());
  } else {
    fmt::print(
        "measured {} products in {:.1f} s; for {} of them the built-in rule is not the "
        "fastest\n{}",
        products.measured.num_measured(),
        products.seconds,
        products.measured.num_changed(),
        changed_products_text(products.measured));
  }
  fmt::print("stored: {}\n", products.file);
}

int tune_cpu(const TuneArguments& arguments, int num_workers) {
  api::EngineArgs args = arguments.engine;
  args.tune.reset();
  const std::vector<ThreadTrial> trials = try_numbers_of_threads(args, num_workers);
  if (!arguments.json) {
    fmt::print("{}", thread_trials_text(trials));
    return 0;
  }
  Json list = Json::array();
  for (const ThreadTrial& trial : trials) {
    list.push_back({{"num_threads", trial.num_threads},
                    {"decode_us", trial.decode_us},
                    {"prompt_us", trial.prompt_us},
                    {"prompt_tokens", trial.prompt_tokens}});
  }
  fmt::print("{}\n", Json{{"device", "cpu"}, {"threads", list}}.dump(2));
  return 0;
}

}  // namespace

int run_tune(std::span<const std::string> raw_arguments) {
  TuneArguments arguments;
  const OptionTable table = make_table(arguments);
  if (!parse_model_command(table, raw_arguments, "tune", arguments.engine.model)) return 0;
  if (arguments.engine.tune == false) throw InvalidArgument("tune: --no-tune measures nothing");
  arguments.engine.tune = true;
  StartupProgress progress(false);
  std::unique_ptr<api::LoadedEngine> engine =
      api::load_engine(arguments.engine, progress.observer());
  std::erase(engine->report.warnings, api::kNothingToTune);  // the caller did not give --tune
  print_warnings(engine->report);
  if (!engine->device->is_gpu()) {
    if (arguments.engine.tune_again) {
      print_message(LogLevel::warning,
                    "warning: --again has no effect: the device is a CPU, for which nothing is "
                    "stored\n");
    }
    const int num_workers = engine->device->num_workers;
    engine.reset();  // its memory and its threads
    return tune_cpu(arguments, num_workers);
  }
  const api::ProductReport& products = *engine->report.products;
  if (arguments.json) {
    const Json document = {{"device", engine->report.device},
                           {"file", products.file},
                           {"seconds", products.seconds},
                           {"num_measured", products.measured.num_measured()},
                           {"num_changed", products.measured.num_changed()},
                           {"measured", products_to_json(products.measured)}};
    fmt::print("{}\n", document.dump(2));
  } else {
    print_result(products);
  }
  return 0;
}

}  // namespace reprise::cli
