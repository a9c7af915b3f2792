#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/http_client/http_client.h"
#include "reprise/hub/download/listing.h"
#include "reprise/hub/hub_name.h"

namespace reprise::hub {

struct PullOptions {
  HubName name;
  std::string revision = "main";  // a branch, a tag or a commit
  std::filesystem::path cache;    // the folder with all repositories
  http_client::BaseUrl endpoint;
  std::string token;  // empty: anonymous
  http_client::ProxyRules proxies;
};

/// The files that a pull fetches, and how many of their bytes are on disk already.
struct PullPlan {
  std::vector<RepositoryFile> files;  // small ones first
  std::filesystem::path snapshot;     // the folder of the commit
  uint64_t total_bytes = 0;
  uint64_t bytes_there = 0;  // the part of total_bytes that is already on disk
};

/// The functions are called by one thread at a time, `on_plan` before all others. Each may throw,
/// which ends the pull.
struct PullObserver {
  std::function<void(const PullPlan& plan)> on_plan;
  std::function<void(uint64_t bytes_there)> on_bytes;
  std::function<void(const RepositoryFile& file)> on_file;  // is complete
  std::function<void(std::string_view message)> on_message;
};

/// Asks the hub which files a pull has to fetch. Changes nothing on disk. \throws InvalidArgument,
/// Error as pull()
[[nodiscard]] PullPlan plan_pull(const PullOptions& options);

/// Downloads a model into the cache, in the layout of huggingface_hub: contents in `blobs` under
/// their hashes, links to them in `snapshots/COMMIT`, the commit in `refs/REVISION`. Fetches four
/// files at a time, and nothing that is there. The reference is written last, so a model that is
/// not complete is not found by its name. Killing the process loses nothing.
/// \throws InvalidArgument for a name, revision or token that the hub refuses; HubUnreachable;
/// Error when the disk is full or the content is not what the hub promised
PullPlan pull(const PullOptions& options, const PullObserver& observer);

}  // namespace reprise::hub
