#pragma once

#include <cstdint>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/memory_size.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/config/resolved_config.h"
#include "reprise/parallel/communicator.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/rank_weights.h"

namespace reprise::api {

/// Refuses what an engine of several ranks cannot do yet, by its name. \throws InvalidArgument
void check_rank_options(const EngineArgs& args, const config::ResolvedConfig& graphs);

/// What has no effect with this number of ranks.
void warn_of_ranks(const EngineArgs& args, ResolvedOptions& options);

/// This rank's place among those that divide the model. In a program that has not started its ranks
/// it is the place of EngineArgs::planned_rank.
[[nodiscard]] weights::RankOfModel rank_of_model(const EngineArgs& args);
/// The number of this rank among all that have programs of their own: those of every engine if
/// experts are divided among engines.
[[nodiscard]] int rank_index(const EngineArgs& args);

/// "; rank 1 of 2 over Open MPI", the same for engines, and the experts of this rank if it does not
/// have all; empty for one rank.
[[nodiscard]] std::string rank_text(const EngineArgs& args, const weights::ModelConfig& config);

/// \throws InvalidArgument unless `args` has tensor_parallel_size * pipeline_parallel_size ranks
void require_ranks(const EngineArgs& args);

/// The smallest cache of all ranks: each has its own part of the keys and values of the same
/// blocks. \throws parallel::RankError
[[nodiscard]] KvCacheSize agree_on_cache_size(parallel::Communicator& ranks, KvCacheSize mine);

}  // namespace reprise::api
