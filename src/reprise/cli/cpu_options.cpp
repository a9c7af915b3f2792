#include "reprise/cli/cpu_options.h"

namespace reprise::cli {

void add_cpu_options(OptionTable& table, const std::string& group, api::EngineArgs& args) {
  table.add_integer(
      "num-threads", group, "Worker threads; 0 = one per usable core.", args.num_threads);
  table.add_text("cpu-threads-bind",
                 group,
                 "CPUS",
                 "CPUs of worker threads: auto (each core, by NUMA node), nobind, or 0-31|32-63.",
                 args.cpu_threads_bind);
  table.add_text("cpu-isa",
                 group,
                 "ISA",
                 "auto, scalar, avx2, avx512, avx512_vnni, avx512_bf16 or amx.",
                 args.cpu_isa);
  table.add_switch("batch-invariant",
                   group,
                   "The answer to a request does not depend on the other requests. Without it, "
                   "prompts and batches are faster on GPUs, and with packed weights on AMX.",
                   "on; off for GPUs, and for packed weights on AMX",
                   args.batch_invariant);
}

}  // namespace reprise::cli
