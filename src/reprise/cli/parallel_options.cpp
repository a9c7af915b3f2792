#include "reprise/cli/parallel_options.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace reprise::cli {
namespace {

struct SizeOption {
  std::string name;
  std::string short_name;
  std::string help;
};

void add_size(OptionTable& table, const std::string& group, SizeOption option, int32_t& target) {
  const std::string flag = "--" + option.name;
  table.add({.name = std::move(option.name),
             .short_name = std::move(option.short_name),
             .group = group,
             .value_name = "N",
             .help = std::move(option.help),
             .default_text = "1",
             .apply = [flag, &target](std::string_view value) {
               target = static_cast<int32_t>(
                   std::min<int64_t>(parse_human_integer(flag, value), INT32_MAX));
             }});
}

}  // namespace

void add_parallel_options(OptionTable& table, const std::string& group, api::EngineArgs& args) {
  add_size(table,
           group,
           {.name = "tensor-parallel-size",
            .short_name = "-tp",
            .help = "Processes that share each layer of the model (ranks)."},
           args.tensor_parallel_size);
  add_size(table,
           group,
           {.name = "pipeline-parallel-size",
            .short_name = "-pp",
            .help = "Stages among which the layers of the model are divided; each has "
                    "--tensor-parallel-size ranks."},
           args.pipeline_parallel_size);
  add_size(table,
           group,
           {.name = "data-parallel-size",
            .short_name = "-dp",
            .help = "Engines with the same model behind one server or command; each request goes "
                    "to the engine with the fewest requests."},
           args.data_parallel_size);
  table.add({.name = "distributed-executor-backend",
             .group = group,
             .value_name = "NAME",
             .help = "How ranks are started: mpi (mpirun), mp (processes over TCP), "
                     "external_launcher (torchrun or SLURM starts them), uni (one rank); auto is "
                     "mpi where it is installed, else mp.",
             .default_text = args.distributed_executor_backend,
             .apply =
                 [&args](std::string_view value) {
                   args.distributed_executor_backend = std::string(value);
                 },
             .choices = {"auto", "mp", "mpi", "external_launcher", "uni"}});
  table.add_switch("data-parallel-lockstep",
                   group,
                   "The engines of --data-parallel-size run their steps together, with the same "
                   "mode and padded size.",
                   args.data_parallel_lockstep);
  table.add_switch(
      "enable-expert-parallel",
      group,
      "Ranks of --tensor-parallel-size, or the engines of --data-parallel-size, divide the experts "
      "of each layer among themselves, instead of dividing each expert.",
      args.enable_expert_parallel);
  table.add_integer(
      "distributed-timeout-seconds",
      group,
      "Seconds that a rank waits for another one in a step; a rank that sends no heartbeat "
      "for 3/5 of it is lost.",
      args.distributed_timeout_seconds);
}

}  // namespace reprise::cli
