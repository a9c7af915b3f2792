#include "reprise/hub/download/pull.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/hub/download/blob_transfer.h"
#include "reprise/hub/download/file_choice.h"
#include "reprise/hub/download/hub_connection.h"

namespace reprise::hub {
namespace {

namespace fs = std::filesystem;

// The number of files that are fetched at the same time. One connection does not fill a fast line,
// because servers limit its rate.
constexpr size_t kTransfers = 4;

/// The address of the next page in a header Link, without scheme and host; empty on the last page.
std::string next_page(std::string_view link) {
  const size_t begin = link.find('<');
  const size_t end = link.find('>');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin ||
      link.find("rel=\"next\"", end) == std::string_view::npos) {
    return {};
  }
  const std::string_view url = link.substr(begin + 1, end - begin - 1);
  return std::string(url.substr(std::min(url.find("/api/models/"), url.size())));
}

struct Commit {
  std::string hash;
  PullPlan plan;
};

class Pull {
 public:
  Pull(const PullOptions& options, const PullObserver& observer)
      : options_(&options),
        observer_(&observer),
        folder_(options.cache / options.name.cache_folder()),
        hub_({.endpoint = options.endpoint,
              .token = options.token,
              .repository = options.name.repository,
              .revision = options.revision,
              .proxies = options.proxies,
              .on_wait = [this](std::string_view reason, std::chrono::seconds wait) {
                if (has_failed_) throw Error("another file could not be fetched");
                tell(fmt::format("{}; trying again in {} s", reason, wait.count()));
              }}) {
    if (!is_safe_path(options.revision)) {
      throw InvalidArgument(fmt::format(
          "--revision: '{}' is not the name of a branch, a tag or a commit", options.revision));
    }
  }

  Commit look_up() {
    const std::string api = "/api/models/" + options_->name.repository;
    const std::string about = api + "/revision/" + url_path(options_->revision, Slashes::escaped);
    Commit commit{.hash = read_commit(hub_.fetch(about).body, "GET " + about)};
    std::vector<RepositoryFile> all;
    constexpr int kMostPages = 1000;  // of 1000 files
    std::string page = fmt::format("{}/tree/{}?recursive=true", api, commit.hash);
    for (int i = 0; i < kMostPages && !page.empty(); ++i) {
      const http_client::HttpReply reply = hub_.fetch(page);
      std::ranges::move(read_tree(reply.body, "GET " + page), std::back_inserter(all));
      page = next_page(reply.header("link"));
    }
    PullPlan& plan = commit.plan;
    plan.files = choose_files(all, options_->name.file, options_->name.repository);
    plan.snapshot = folder_ / "snapshots" / commit.hash;
    for (const RepositoryFile& file : plan.files) {
      plan.total_bytes += file.size;
      plan.bytes_there += bytes_on_disk(file, place_of(file));
    }
    return commit;
  }

  PullPlan run() {
    Commit commit = look_up();
    const PullPlan& plan = commit.plan;
    bytes_there_ = plan.bytes_there;
    if (observer_->on_plan) observer_->on_plan(plan);
    fs::create_directories(folder_ / "blobs");
    require_space(plan);
    fetch_all(commit);
    write_reference(commit.hash);
    return std::move(commit.plan);
  }

 private:
  [[nodiscard]] BlobPlace place_of(const RepositoryFile& file) const {
    return {
        .blobs = folder_ / "blobs",
        .lock = options_->cache / ".locks" / options_->name.cache_folder() / (file.hash + ".lock")};
  }

  void require_space(const PullPlan& plan) const {
    const uint64_t missing = plan.total_bytes - plan.bytes_there;
    const fs::space_info space = fs::space(folder_);
    if (space.available >= missing) return;
    throw Error(
        fmt::format("{}: {} bytes are missing and the disk has {} free; free some, or set "
                    "HF_HUB_CACHE to a folder on another disk",
                    folder_.string(),
                    missing,
                    space.available));
  }

  void fetch_all(const Commit& commit) {
    const std::vector<RepositoryFile>& files = commit.plan.files;
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < files.size() && !has_failed_; i = next++) {
        try {
          fetch(commit, files[i]);
        } catch (...) {
          const std::scoped_lock lock(mutex_);
          if (!has_failed_.exchange(true)) failure_ = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < std::min(kTransfers, files.size()); ++i) threads.emplace_back(work);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  void fetch(const Commit& commit, const RepositoryFile& file) {
    const std::string target = fmt::format("/{}/resolve/{}/{}",
                                           options_->name.repository,
                                           commit.hash,
                                           url_path(file.path, Slashes::kept));
    fetch_blob(hub_,
               target,
               file,
               place_of(file),
               {.on_bytes =
                    [this](int64_t bytes) {
                      if (has_failed_) throw Error("another file could not be fetched");
                      const std::scoped_lock lock(mutex_);
                      bytes_there_ += static_cast<uint64_t>(bytes);
                      if (observer_->on_bytes) observer_->on_bytes(bytes_there_);
                    },
                .on_message = [this](std::string_view message) { tell(message); }});
    link(commit.plan.snapshot, file);
    const std::scoped_lock lock(mutex_);
    if (observer_->on_file) observer_->on_file(file);
  }

  /// Makes the file's name in the snapshot a link to its content, as huggingface_hub does.
  void link(const fs::path& snapshot, const RepositoryFile& file) {
    const fs::path name = snapshot / file.path;
    fs::path target = "../..";
    for (auto left = std::ranges::count(file.path, '/'); left > 0; --left) target /= "..";
    target /= fs::path("blobs") / file.hash;
    const std::scoped_lock lock(mutex_);
    fs::create_directories(name.parent_path());
    std::error_code error;
    if (fs::read_symlink(name, error) == target) return;
    const fs::path fresh = fmt::format("{}.{}.link", name.string(), getpid());
    fs::remove(fresh, error);
    fs::create_symlink(target, fresh);
    fs::rename(fresh, name);
  }

  void write_reference(const std::string& commit) const {
    if (options_->revision == commit) return;
    const fs::path reference = folder_ / "refs" / options_->revision;
    fs::create_directories(reference.parent_path());
    const fs::path fresh = fmt::format("{}.{}.new", reference.string(), getpid());
    std::ofstream file(fresh);
    file << commit;
    file.close();
    if (!file) throw Error(fmt::format("{}: cannot write", fresh.string()));
    fs::rename(fresh, reference);
  }

  void tell(std::string_view message) {
    const std::scoped_lock lock(mutex_);
    if (observer_->on_message) observer_->on_message(message);
  }

  const PullOptions* options_;
  const PullObserver* observer_;
  fs::path folder_;  // of the repository
  HubConnection hub_;
  std::mutex mutex_;  // guards the members below, the observer, and the folders of the snapshot
  uint64_t bytes_there_ = 0;
  std::exception_ptr failure_;  // the first
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

PullPlan plan_pull(const PullOptions& options) { return Pull(options, {}).look_up().plan; }

PullPlan pull(const PullOptions& options, const PullObserver& observer) {
  return Pull(options, observer).run();
}

}  // namespace reprise::hub
