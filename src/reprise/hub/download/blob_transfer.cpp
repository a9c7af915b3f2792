#include "reprise/hub/download/blob_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "reprise/base/disk_steps.h"
#include "reprise/base/error.h"
#include "reprise/hub/download/file_hash.h"

namespace reprise::hub {
namespace {

namespace fs = std::filesystem;
using http_client::HttpHead;

[[noreturn]] void throw_errno(const fs::path& path, std::string_view what) {
  throw Error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

bool is_complete(const RepositoryFile& file, const fs::path& blob) {
  std::error_code error;
  return fs::is_regular_file(blob, error) && fs::file_size(blob, error) == file.size && !error;
}

/// huggingface_hub's lock for one content, held until destruction. A file system without locks
/// gives no lock: then two downloads at once can spoil a file, and the check of the hash notices
/// it.
Descriptor lock_content(const fs::path& path, const std::function<void()>& on_wait) {
  fs::create_directories(path.parent_path());
  while (true) {
    Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (lock.number() < 0) throw_errno(path, "cannot open the lock");
    if (flock(lock.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return lock;
      on_wait();
      while (flock(lock.number(), LOCK_EX) != 0) {
        if (errno != EINTR) return lock;
      }
    }
    struct stat status{};
    // The last owner of the lock may have removed the file: a lock on a removed file excludes
    // nobody else.
    if (fstat(lock.number(), &status) == 0 && status.st_nlink > 0) return lock;
  }
}

/// The file HASH.incomplete: its bytes so far and their hash.
class PartialFile {
 public:
  PartialFile(const RepositoryFile& file, fs::path path)
      : file_(&file),
        path_(std::move(path)),
        descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (descriptor_.number() < 0) throw_errno(path_, "cannot open");
    hash_what_is_there();
  }

  [[nodiscard]] uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_full() const noexcept { return size_ == file_->size; }

  void add(std::string_view bytes) {
    if (bytes.size() > file_->size - size_) {
      throw Error(fmt::format("{}: the server sends more than the {} bytes that its listing names",
                              file_->path,
                              file_->size));
    }
    hash_->add(bytes);
    size_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_.number(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_errno(path_, "cannot write");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void clear() {
    if (ftruncate(descriptor_.number(), 0) != 0) throw_errno(path_, "cannot empty");
    hash_what_is_there();
  }

  /// Whether the whole content has the hash that the listing names. Call once, when full.
  [[nodiscard]] bool has_right_hash() { return hash_->hex() == file_->hash; }

  /// Gives the content its final name.
  void finish(const fs::path& blob) {
    if (fsync(descriptor_.number()) != 0) throw_errno(path_, "cannot write");
    fs::rename(path_, blob);
  }

 private:
  void hash_what_is_there() {
    hash_.emplace(file_->hash_kind, file_->size);
    size_ = 0;
    if (lseek(descriptor_.number(), 0, SEEK_SET) != 0) throw_errno(path_, "cannot read");
    std::array<char, size_t{64} << 10> buffer{};
    while (true) {
      const ssize_t got = read(descriptor_.number(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno(path_, "cannot read");
      if (got == 0) return;
      size_ += static_cast<uint64_t>(got);
      if (size_ > file_->size) return clear();
      hash_->add({buffer.data(), static_cast<size_t>(got)});
    }
  }

  const RepositoryFile* file_;  // of the caller
  fs::path path_;
  Descriptor descriptor_;
  std::optional<FileHash> hash_;
  uint64_t size_ = 0;
};

class Transfer {
 public:
  Transfer(const HubConnection& hub,
           const std::string& target,
           PartialFile& partial,
           const TransferObserver& observer)
      : hub_(&hub),
        target_(&target),
        partial_(&partial),
        observer_(&observer),
        retries_(hub.options().on_wait) {}

  /// Asks for the rest of the file until the whole file is there.
  void run() {
    while (!partial_->is_full()) {
      const uint64_t before = partial_->size();
      const HubConnection::Outcome outcome = ask_for_rest(before);
      if (partial_->size() > before) retries_.reset();
      if (partial_->is_full()) return;
      const int status = outcome.head.status;
      if (status == 416) {
        clear();
        retries_.wait(fmt::format("{}: the server has no byte {}", *target_, before));
      } else if (!outcome.error.empty()) {
        retries_.wait(outcome.error);
      } else if (status == 200 || status == 206) {
        retries_.wait(
            fmt::format("{}: the server ended its answer {} bytes in", *target_, partial_->size()));
      } else if (Retries::is_worth_it(status)) {
        retries_.wait(fmt::format("{}: {} {}", *target_, status, outcome.head.reason),
                      outcome.head.header("retry-after"));
      } else {
        hub_->refuse(outcome.head, *target_);
      }
    }
  }

  void clear() {
    observer_->on_bytes(-static_cast<int64_t>(partial_->size()));
    partial_->clear();
  }

 private:
  HubConnection::Outcome ask_for_rest(uint64_t offset) {
    http_client::HttpHeaders headers;
    if (offset > 0) headers.emplace_back("range", fmt::format("bytes={}-", offset));
    bool is_content = false;
    return hub_->get(*target_,
                     headers,
                     {.on_head = [&](const HttpHead& head) { is_content = begin(head, offset); },
                      .on_piece =
                          [&](std::string_view piece) {
                            if (!is_content) return;
                            partial_->add(piece);
                            observer_->on_bytes(static_cast<int64_t>(piece.size()));
                          }});
  }

  /// Whether the answer's body continues the file.
  bool begin(const HttpHead& head, uint64_t offset) {
    if (head.status == 200) {
      if (offset > 0) clear();  // the server does not send parts
      return true;
    }
    if (head.status != 206) return false;
    if (head.header("content-range").starts_with(fmt::format("bytes {}-", offset))) return true;
    throw Error(fmt::format("{}: asked for the bytes from {} on, the server sends '{}'",
                            *target_,
                            offset,
                            head.header("content-range")));
  }

  const HubConnection* hub_;
  const std::string* target_;
  PartialFile* partial_;
  const TransferObserver* observer_;
  Retries retries_;
};

fs::path partial_path(const RepositoryFile& file, const BlobPlace& place) {
  return place.blobs / (file.hash + ".incomplete");
}

}  // namespace

uint64_t bytes_on_disk(const RepositoryFile& file, const BlobPlace& place) {
  if (is_complete(file, place.blobs / file.hash)) return file.size;
  std::error_code error;
  const uintmax_t size = fs::file_size(partial_path(file, place), error);
  return error || size > file.size ? 0 : size;
}

void fetch_blob(const HubConnection& hub,
                const std::string& target,
                const RepositoryFile& file,
                const BlobPlace& place,
                const TransferObserver& observer) {
  const fs::path blob = place.blobs / file.hash;
  if (is_complete(file, blob)) return;
  const auto before = static_cast<int64_t>(bytes_on_disk(file, place));
  const Descriptor lock = lock_content(place.lock, [&] {
    observer.on_message(fmt::format("{}: another process fetches it; waiting", file.path));
  });
  if (is_complete(file, blob)) return observer.on_bytes(static_cast<int64_t>(file.size) - before);
  PartialFile partial(file, partial_path(file, place));
  observer.on_bytes(static_cast<int64_t>(partial.size()) - before);
  Transfer transfer(hub, target, partial, observer);
  // The bytes of an earlier attempt may be wrong, so a wrong hash is forgiven once; after a fresh
  // download it is an error.
  for (bool is_fresh = partial.size() == 0;; is_fresh = true) {
    transfer.run();
    if (partial.has_right_hash()) return partial.finish(blob);
    transfer.clear();
    if (is_fresh) {
      throw Error(
          fmt::format("{}: the content does not have the hash {} that the hub names, so it "
                      "was thrown away; try again, or another HF_ENDPOINT",
                      file.path,
                      file.hash));
    }
    observer.on_message(
        fmt::format("{}: what an earlier attempt left is wrong; fetching it anew", file.path));
  }
}

}  // namespace reprise::hub
