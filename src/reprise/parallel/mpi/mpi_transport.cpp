#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/parallel/mpi_plugin.h"

namespace reprise::parallel {
namespace {

std::string mpi_error_text(int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<size_t>(length));
  return text;
}

// The only place where errors of MPI become exceptions.
void require_success(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(fmt::format("{}: {}", call, mpi_error_text(code)));
}

// The name of this process's segment of shared memory; empty: it has none. Open MPI (4.x) names
// them vader_segment.HOST.USER.JOB.RANK with the number of the rank on its machine.
std::string own_segment(int local_rank) {
  const std::string ending = fmt::format(".{}", local_rank);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    std::string path = line.substr(begin);
    const bool is_segment = path.find("/vader_segment.") != std::string::npos;
    if (is_segment && path.ends_with(ending)) return path;
  }
  return {};
}

/// The messages of MPI, without its collectives: those have no deadline and do not say which rank
/// is missing.
class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
    remove_segment_name();
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] std::string description() const override {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    text.resize(static_cast<size_t>(length));
    return text.substr(0, text.find(','));
  }

  [[nodiscard]] Handle send(int to, uint32_t tag, const void* data, size_t bytes) override {
    const Handle handle = free_handle();
    require_success(MPI_Isend(data,
                              count_of(bytes),
                              MPI_BYTE,
                              to,
                              static_cast<int>(tag),
                              communicator_,
                              &requests_[static_cast<size_t>(handle)]),
                    "MPI_Isend");
    return handle;
  }

  [[nodiscard]] Handle receive(int from, uint32_t tag, void* data, size_t bytes) override {
    const Handle handle = free_handle();
    require_success(MPI_Irecv(data,
                              count_of(bytes),
                              MPI_BYTE,
                              from,
                              static_cast<int>(tag),
                              communicator_,
                              &requests_[static_cast<size_t>(handle)]),
                    "MPI_Irecv");
    return handle;
  }

  [[nodiscard]] bool test(Handle handle) override {
    int is_done = 0;
    require_success(MPI_Test(&requests_[static_cast<size_t>(handle)], &is_done, MPI_STATUS_IGNORE),
                    "MPI_Test");
    if (is_done != 0) free_.push_back(handle);
    return is_done != 0;
  }

  [[nodiscard]] std::optional<uint32_t> waiting_tag(int from, uint32_t ignored) override {
    int is_there = 0;
    MPI_Status status;
    const int code = MPI_Iprobe(from, MPI_ANY_TAG, communicator_, &is_there, &status);
    if (code != MPI_SUCCESS || is_there == 0) return std::nullopt;
    const auto tag = static_cast<uint32_t>(status.MPI_TAG);
    if (tag == ignored) return std::nullopt;
    return tag;
  }

  void finish() noexcept override {
    // Only heartbeats are still being sent, and no rank waits for them.
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    MPI_Comm_free(&communicator_);
    // MPI_Finalize reports an error if it cannot remove the name.
    if (!segment_.empty()) (void)std::ofstream(segment_).put('\0');
    MPI_Finalize();
  }

 private:
  // A killed process would leave its segment of 4 MB in /dev/shm. Without a name, the memory is
  // freed when the last process that maps the segment ends, however it ends.
  void remove_segment_name() {
    if (!meet_all()) return;
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
    int local_rank = 0;
    MPI_Comm_rank(machine, &local_rank);
    MPI_Comm_free(&machine);
    segment_ = own_segment(local_rank);
    if (!segment_.empty() && unlink(segment_.c_str()) != 0) segment_.clear();
  }

  // Exchanges a message with each rank. Then each of them has mapped this rank's segment.
  bool meet_all() {
    const auto count = static_cast<size_t>(size_);
    std::vector<char> in(count);
    std::vector<char> out(count);
    std::vector<MPI_Request> messages(2 * count, MPI_REQUEST_NULL);
    for (int peer = 0; peer < size_; ++peer) {
      const auto at = static_cast<size_t>(peer);
      MPI_Irecv(&in[at], 1, MPI_BYTE, peer, 0, communicator_, &messages[2 * at]);
      MPI_Isend(&out[at], 1, MPI_BYTE, peer, 0, communicator_, &messages[2 * at + 1]);
    }
    return MPI_Waitall(2 * size_, messages.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS;
  }

  static int count_of(size_t bytes) {
    if (bytes > INT_MAX) {
      throw Error(fmt::format("a message of {} bytes: MPI takes at most {}", bytes, INT_MAX));
    }
    return static_cast<int>(bytes);
  }

  [[nodiscard]] Handle free_handle() {
    if (free_.empty()) {
      requests_.push_back(MPI_REQUEST_NULL);
      return static_cast<Handle>(requests_.size()) - 1;
    }
    const Handle handle = free_.back();
    free_.pop_back();
    return handle;
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::string segment_;  // shared memory whose name must be removed; empty: none
  std::vector<MPI_Request> requests_;
  std::vector<Handle> free_;
};

Transport* create_transport(std::string& reason) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    reason = "MPI_Init_thread failed";
    return nullptr;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    reason = "this MPI allows calls from one thread only; ranks need MPI_THREAD_SERIALIZED";
    return nullptr;
  }
  void* value = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &is_set);
  if (is_set == 0 || std::cmp_less(*static_cast<int*>(value), Transport::kMaxTag)) {
    reason = "the tags of this MPI are too short; ranks need 31 bits";
    return nullptr;
  }
  return new MpiTransport();
}

}  // namespace
}  // namespace reprise::parallel

extern "C" __attribute__((visibility("default"))) reprise::parallel::Transport*
reprise_create_transport(uint32_t version, std::string& reason) {
  if (version != reprise::parallel::kTransportVersion) {
    reason = "the MPI plug-in is of another version of Reprise; build both from one tree";
    return nullptr;
  }
  return reprise::parallel::create_transport(reason);
}
