#pragma once

#include <memory>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/speculative/drafter.h"

/// The second model of --speculative-config (a draft model, or a draft head) as an engine without
/// text and core.
namespace reprise::api {

/// The options of that second model. nullptr: drafts need no model. May set in the options of
/// `main` which hidden states the main model gives to a head. \throws InvalidArgument, FileError
[[nodiscard]] std::unique_ptr<LoadedEngine> resolve_draft_engine(LoadedEngine& main);

/// The blocks of the draft model's cache: as many as the main model has; a draft head has its
/// scratch blocks too. Both numbers count a null block.
[[nodiscard]] int64_t num_draft_blocks(const LoadedEngine& draft, int64_t num_main_blocks);
/// The memory that the drafter of this model will allocate. `draft`: nullptr: drafts need no model.
[[nodiscard]] int64_t drafter_bytes(const LoadedEngine* draft);

/// Makes the object that proposes drafts. `draft`: with its runner; nullptr if drafts need no
/// model. Returns nullptr if there are no drafts.
[[nodiscard]] std::unique_ptr<speculative::Drafter> create_drafter(const LoadedEngine& main,
                                                                   LoadedEngine* draft);

}  // namespace reprise::api
