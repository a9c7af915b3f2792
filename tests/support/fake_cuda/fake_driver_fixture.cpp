#include "tests/support/fake_cuda/fake_driver_fixture.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

namespace reprise::device::cuda {

using fake_driver::fake;
using fake_driver::Lock;

FakeDriver::State* fake_driver::fake = nullptr;

FakeSchedule fake_schedule_of_environment() {
  const char* number = std::getenv("REPRISE_FAKE_SCHEDULE");
  return FakeSchedule{number == nullptr ? 0 : std::strtoull(number, nullptr, 10)};
}

FakeDriver::FakeDriver(FakeSchedule schedule) : state_(std::make_unique<State>()) {
  if (fake != nullptr) throw std::logic_error("there is a FakeDriver already");
  fake = state_.get();
  if (schedule == FakeSchedule{0}) return;
  state_->random.seed(static_cast<uint32_t>(schedule));
  state_->calls_per_early_run = std::array{1U, 4U, 32U}[state_->random() % 3];
  state_->most_early_work = std::array{1U, 4U, 64U}[state_->random() % 3];
}

FakeDriver::~FakeDriver() { fake = nullptr; }

DriverApi FakeDriver::api() const noexcept {
  DriverApi api{.contexts = state_->retained_contexts};
#define REPRISE_FAKE_MEMBER(member, symbol) api.member = fake_driver::member;
  REPRISE_CUDA_DRIVER_FUNCTIONS(REPRISE_FAKE_MEMBER)
#undef REPRISE_FAKE_MEMBER
  return api;
}

void FakeDriver::observe(std::function<void(std::string_view call)> observer) {
  const Lock lock(state_->mutex);
  state_->observer =
      std::make_shared<const std::function<void(std::string_view)>>(std::move(observer));
}

void FakeDriver::add_kernel(const std::string& function, FakeKernel kernel) {
  const Lock lock(state_->mutex);
  state_->kernels[function] = std::move(kernel);
}

void FakeDriver::set_virtual_memory(bool has_it) {
  const Lock lock(state_->mutex);
  state_->has_virtual_memory = has_it;
}

void FakeDriver::set_num_gpus(int num_gpus) {
  const Lock lock(state_->mutex);
  state_->num_gpus = num_gpus;
}

void FakeDriver::work_in_background() {
  std::thread([] {
    // The process ends this thread. No test makes another driver after this one.
    while (fake != nullptr) {
      fake->let_others_work(-1);
    }
  }).detach();
}

void FakeDriver::set_total_memory(size_t bytes) {
  const Lock lock(state_->mutex);
  state_->total_bytes = bytes;
}

void FakeDriver::read_images(FakeImageReader reader) {
  const Lock lock(state_->mutex);
  state_->image_reader = std::move(reader);
}

void FakeDriver::fail_call(uint64_t k, CUresult error) {
  const Lock lock(state_->mutex);
  state_->num_calls = 0;
  state_->failing_call = k;
  state_->error = error;
  state_->is_lost = false;
  state_->failed_call.clear();
}

uint64_t FakeDriver::num_calls() const noexcept {
  const Lock lock(state_->mutex);
  return state_->num_calls;
}

uint64_t FakeDriver::num_calls(std::string_view function) const {
  const Lock lock(state_->mutex);
  const auto found = state_->calls_by_name.find(function);
  return found == state_->calls_by_name.end() ? 0 : found->second;
}

uint64_t FakeDriver::bytes_from_host() const {
  const Lock lock(state_->mutex);
  return state_->bytes_from_host;
}

std::string FakeDriver::failed_call() const {
  const Lock lock(state_->mutex);
  return state_->failed_call;
}

FakeResources FakeDriver::resources() const {
  const Lock lock(state_->mutex);
  return {.allocations = state_->allocations.size(),
          .reservations = state_->reservations.size(),
          .physical = state_->physical.size(),
          .mappings = state_->mappings.size(),
          .host_allocations = state_->host_allocations.size(),
          .streams = state_->streams.size(),
          .events = state_->events.size(),
          .modules = state_->modules.size(),
          .graphs = state_->graphs.size(),
          .executables = state_->executables.size()};
}

std::vector<std::string> FakeDriver::misuses() const {
  const Lock lock(state_->mutex);
  return state_->misuses;
}

CUresult FakeDriver::enter(const char* call) {
  const Lock lock(state_->mutex);
  return state_->enter(call);
}

void FakeDriver::set_time_of_kernels(
    std::function<double(const std::string& function, uint32_t num_blocks)> time) {
  const Lock lock(state_->mutex);
  state_->time_of_kernels = std::move(time);
}

void FakeDriver::set_block_shared_bytes(int bytes) {
  const Lock lock(state_->mutex);
  state_->block_shared_bytes = bytes;
}

void FakeDriver::set_architecture_of_code(int architecture) {
  const Lock lock(state_->mutex);
  state_->architecture_of_code = architecture;
}

CUresult FakeDriver::submit(CUstream stream, std::function<void()> work, double microseconds) {
  const Lock lock(state_->mutex);
  return state_->submit(
      stream,
      {.type = CU_GRAPH_NODE_TYPE_KERNEL, .work = std::move(work), .microseconds = microseconds});
}

CUresult FakeDriver::submit(CUstream stream, FakeExchange exchange) {
  const Lock lock(state_->mutex);
  return state_->submit(stream,
                        {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                         .exchange = std::make_shared<const FakeExchange>(std::move(exchange))});
}

void FakeDriver::set_library_memory(size_t bytes) {
  const Lock lock(state_->mutex);
  state_->library_bytes = bytes;
}

int FakeDriver::gpu_of_thread() const {
  const Lock lock(state_->mutex);
  return state_->gpu_of_thread();
}

bool FakeDriver::is_capturing() const {
  const Lock lock(state_->mutex);
  return state_->mode_of_thread() != CU_STREAM_CAPTURE_MODE_RELAXED &&
         std::ranges::any_of(state_->streams, [](const auto& stream) {
           return stream->capture != nullptr &&
                  stream->capture->thread == std::this_thread::get_id();
         });
}

bool FakeDriver::owns(const void* address, size_t bytes) const {
  const Lock lock(state_->mutex);
  return state_->owns(reinterpret_cast<CUdeviceptr>(address), bytes);
}

void FakeDriver::add_misuse(std::string text) {
  const Lock lock(state_->mutex);
  state_->misuses.push_back(std::move(text));
}

}  // namespace reprise::device::cuda
