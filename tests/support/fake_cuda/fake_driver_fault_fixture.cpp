#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

// Reserved addresses without memory cause a fault on the host, too. The handler of that signal
// records the address and maps a page of NaNs there. So the work runs to its end and the test
// reports the wrong address; otherwise the signal would end the test.
namespace reprise::device::cuda {
using namespace fake_driver;  // the state's parts

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMostPages = 4096;  // after more faults than this, the signal ends the process

struct FaultedPages {
  std::array<void*, kMostPages> pages{};
  size_t count = 0;
};

// The faults of the work that runs now. The thread of this work holds the fake's mutex.
FaultedPages faults;
thread_local bool is_guarded = false;
struct sigaction previous_action;

void handle_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<CUdeviceptr>(info->si_addr);
  void* page = reinterpret_cast<void*>(address / kPageBytes * kPageBytes);
  if (is_guarded && faults.count < kMostPages && fake->is_reserved(address) &&
      mmap(page,
           kPageBytes,
           PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1,
           0) != MAP_FAILED) {
    std::memset(page, 0xFF, kPageBytes);
    faults.pages[faults.count++] = page;
    return;
  }
  sigaction(SIGSEGV, &previous_action, nullptr);  // the access faults again, without this handler
}

void install_handler() {
  struct sigaction current{};
  sigaction(SIGSEGV, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle_fault) return;
  previous_action = current;
  struct sigaction action{};
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, nullptr);
}

std::string name_of(const Node& node) {
  if (node.function != nullptr) {
    return "kernel " + reinterpret_cast<const Function*>(node.function)->name;
  }
  if (node.work || node.exchange != nullptr) return "a library's kernel";
  return node.type == CU_GRAPH_NODE_TYPE_MEMCPY ? "a copy" : "a fill";
}

}  // namespace

bool FakeDriver::State::is_reserved(CUdeviceptr address) const {
  const auto holds = [address](const Reservation& reservation) {
    const auto begin = reinterpret_cast<CUdeviceptr>(reservation.pages.get());
    return address >= begin && address < begin + reservation.pages.get_deleter().bytes;
  };
  return std::ranges::any_of(released_reservations, holds) ||
         std::ranges::any_of(reservations,
                             [&](const auto& reservation) { return holds(reservation.second); });
}

void FakeDriver::State::run_guarded(const Node& node, const std::function<void()>& work) {
  install_handler();
  is_guarded = true;
  work();
  is_guarded = false;
  if (faults.count == 0) return;
  for (size_t i = 0; i < faults.count; ++i) {
    mmap(faults.pages[i],
         kPageBytes,
         PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1,
         0);
  }
  faults.count = 0;
  misuses.push_back(name_of(node) + " ran on addresses whose memory had been unmapped");
  is_lost = true;
  error = CUDA_ERROR_ILLEGAL_ADDRESS;
  drop_work();
}

}  // namespace reprise::device::cuda
