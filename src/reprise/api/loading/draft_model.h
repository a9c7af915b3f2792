#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/model_files.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/tokenizer/tokenizer.h"

/// The second model of --speculative-config, which makes drafts for the main model.
namespace reprise::api {

/// Whether the drafts of an engine come from a model, or from a draft head (draft_head.h).
[[nodiscard]] bool has_draft_model(const ResolvedOptions& options) noexcept;

/// The options with which the draft model is loaded: those of the main model, with the model and
/// the settings of --speculative-config. Options about requests, or about the main model alone, are
/// left out. `options`: of the main model. \pre has_draft_model(options)
[[nodiscard]] EngineArgs draft_model_args(const EngineArgs& args, const ResolvedOptions& options);

/// Resolves draft_model_args(). `draft_args.max_model_len` gets a value. \throws InvalidArgument if
/// the model cannot draft for the main model, otherwise as resolve_options
[[nodiscard]] ResolvedOptions resolve_draft_model(EngineArgs& draft_args,
                                                  const ResolvedOptions& main);

/// Compares the tokens of both models, if the draft model has a tokenizer.
/// \throws InvalidArgument that names the first token that differs; FileError
void check_same_tokens(const tokenizer::Tokenizer& main, const ModelFiles& draft_model);

}  // namespace reprise::api
