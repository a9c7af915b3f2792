#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/models/draft_head.h"
#include "reprise/weights/weight_source.h"

/// The draft head of --speculative-config: a layer that reads hidden states of the main model.
namespace reprise::api {

/// Whether the drafts of an engine come from a head.
[[nodiscard]] bool has_draft_head(const ResolvedOptions& options) noexcept;

/// The options with which the head is loaded: those of the main model, with the head's folder. A
/// head reads the same batches as the main model, so that all sizes stay.
/// \pre has_draft_head(options) \throws InvalidArgument, FileError
[[nodiscard]] EngineArgs draft_head_args(const EngineArgs& args, const ResolvedOptions& options);

/// Resolves draft_head_args(); ResolvedOptions::draft_head has a value. Also sets which hidden
/// states the main model gives to the head. \throws FileError if the head does not fit the main
/// model; otherwise as resolve_options
[[nodiscard]] ResolvedOptions resolve_draft_head(const EngineArgs& head_args,
                                                 ResolvedOptions& main);

/// Makes a head with weights of open_engine_weights(). `target` must outlive it.
/// \throws FileError
[[nodiscard]] std::unique_ptr<models::DraftHead> create_draft_head(
    const EngineArgs& args,
    const ResolvedOptions& options,
    const weights::WeightSource& source,
    models::Parameters& parameters,
    const models::CausalLM& target);

}  // namespace reprise::api
