#include "reprise/device/cuda/cuda_device.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/device/cuda/cuda_timer.h"
#include "reprise/device/cuda/generated_code.h"
#include "reprise/device/cuda/usable_gpu.h"
#include "reprise/device/error.h"
#include "reprise/device/graph_node.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

// Tests of the calls that reach the driver and of the resources left behind, which the conformance
// suite cannot see.
namespace reprise::device::cuda {
namespace {

struct AddArgs {
  uint32_t* values;
  uint32_t amount;
};

constexpr Kernel kAdd{.name = "add_one",
                      .cuda = {.image = "no machine code",
                               .function = "add",
                               .threads_per_block = 32,
                               .start = CudaKernelCode::Start::early_if_asked}};
constexpr Kernel kEarly{.name = "early",
                        .cuda = {.image = "no machine code",
                                 .function = "add",
                                 .threads_per_block = 32,
                                 .start = CudaKernelCode::Start::early}};
constexpr Kernel kWide{.name = "wide",
                       .cuda = {.image = "no machine code",
                                .function = "add",
                                .threads_per_block = 32,
                                .shared_bytes = 100 * 1024}};
constexpr Kernel kMissing{.name = "missing",
                          .cuda = {.image = "no machine code", .function = "nobody"}};
constexpr Kernel kOfAnotherImage{
    .name = "other",
    .cuda = {.image = "other machine code", .function = "add", .threads_per_block = 32}};
constexpr Kernel kCpuOnly{.name = "cpu_only"};

void run_add(const FakeLaunch& launch) {
  const auto& args = *static_cast<const AddArgs*>(launch.parameter);
  for (uint32_t i = 0; i < launch.num_blocks; ++i) args.values[i] += args.amount;
}

class CudaDeviceOverFake : public testing::Test {
 protected:
  CudaDeviceOverFake() {
    driver_.add_kernel("add", {.parameter_bytes = sizeof(AddArgs), .run = run_add});
  }
  ~CudaDeviceOverFake() override {
    EXPECT_EQ(driver_.misuses(), std::vector<std::string>{});
    EXPECT_EQ(driver_.resources(), FakeResources{});
  }

  static void launch_add(Stream& stream,
                         void* values,
                         uint32_t amount,
                         const Kernel& kernel = kAdd) {
    const AddArgs args{static_cast<uint32_t*>(values), amount};
    stream.launch({.kernel = &kernel, .num_blocks = 8, .args = std::as_bytes(std::span(&args, 1))});
  }
  static uint32_t first_of(Stream& stream, const void* values) {
    uint32_t value = 0;
    stream.copy_to_host(&value, values, sizeof value);
    return value;
  }

  FakeDriver driver_;
};

TEST(UsableGpu, runs_machine_code_of_its_own_and_earlier_minor_versions_and_ptx_of_the_first) {
  const auto runs = [](std::string_view architectures, int major, int minor) {
    return runs_on(architectures, major, minor);
  };
  EXPECT_FALSE(runs("80 90a", 7, 5));
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    EXPECT_TRUE(runs("80 90a", major, minor)) << major << "." << minor;
  }
  // Code for 9.0a runs on that GPU only, and so does its PTX.
  EXPECT_TRUE(runs("90a", 9, 0));
  EXPECT_FALSE(runs("90a", 10, 0));
  EXPECT_FALSE(runs("90a", 8, 0));
  // The second architecture has machine code, but no PTX.
  EXPECT_TRUE(runs("90a 100", 10, 3));
  EXPECT_FALSE(runs("90a 100", 12, 0));
  EXPECT_FALSE(runs("", 9, 0));
}

TEST_F(CudaDeviceOverFake, says_why_a_gpu_cannot_be_used_before_anything_is_made_on_it) {
  EXPECT_EQ(why_not_usable(driver_.api(), 0, "90a"), "");
  EXPECT_NE(why_not_usable(driver_.api(), 1, "80").find("finds 1 GPU;"), std::string::npos);
  EXPECT_EQ(why_not_usable(driver_.api(), 0, "100"),
            "Fake GPU has compute capability 9.0, and this build has code for sm 100; build with "
            "-DREPRISE_CUDA_ARCHITECTURES=90");
  for (const uint64_t call : {1, 2}) {
    driver_.fail_call(call);
    const std::string reason = why_not_usable(driver_.api(), 0, "80");
    EXPECT_NE(reason.find(call == 1 ? "(cuInit: " : "(cuDeviceGetCount: "), std::string::npos)
        << reason;
  }
}

TEST_F(CudaDeviceOverFake,
       only_between_two_kernels_that_wait_by_themselves_may_the_second_begin_early) {
  std::vector<bool> programmatic;
  driver_.add_kernel("add",
                     {.parameter_bytes = sizeof(AddArgs), .run = [&](const FakeLaunch& launch) {
                        programmatic.push_back(launch.is_programmatic);
                        run_add(launch);
                      }});
  for (const bool is_on : {false, true}) {
    programmatic.clear();
    const auto device = create_cuda_device(driver_.api(), {.programmatic_launch = is_on});
    const auto stream = device->create_stream();
    const Buffer values = device->allocate(8 * sizeof(uint32_t));
    const auto event = device->create_event();
    const auto launch_all = [&] {
      launch_add(*stream, values.data(), 1, kEarly);  // first on the stream
      launch_add(*stream, values.data(), 1, kEarly);
      launch_add(*stream, values.data(), 1);
      launch_add(*stream, values.data(), 1, kOfAnotherImage);
      launch_add(*stream, values.data(), 1, kEarly);  // after a kernel that does not wait
      stream->fill(values.data(), std::byte{0}, 4);
      launch_add(*stream, values.data(), 1);
      stream->record(*event);
      launch_add(*stream, values.data(), 1, kEarly);
      launch_add(*stream, values.data(), 1);
    };
    launch_all();
    stream->begin_capture();
    launch_all();
    const auto graph = stream->end_capture();
    const auto exec = device->instantiate(*graph);
    exec->launch(*stream);
    launch_add(*stream, values.data(), 1);  // after a graph
    const std::vector<bool> once = {false, true, is_on, false, false, false, false, is_on};
    std::vector<bool> wanted = once;
    wanted.insert(wanted.end(), once.begin(), once.end());
    wanted.push_back(false);
    EXPECT_EQ(first_of(*stream, values.data()), 4U);
    EXPECT_EQ(programmatic, wanted);
  }
}

TEST_F(CudaDeviceOverFake, memory_is_settled_early_if_only_older_kernels_that_have_ended_write_it) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  const auto& cuda_stream = dynamic_cast<const CudaStream&>(*stream);
  const Buffer values = device->allocate(16 * sizeof(uint32_t));
  auto* data = static_cast<uint32_t*>(values.data());
  const auto is_settled = [&](int first, size_t count) {
    return cuda_stream.is_settled_early(data + first, count * sizeof(uint32_t));
  };
  const auto launch = [&](const Kernel& kernel, BufferUse::Access access) {
    const AddArgs args{data, 1};
    const BufferUse use{.data = data + 4, .bytes = 16, .access = access};
    stream->launch({.kernel = &kernel,
                    .num_blocks = 1,
                    .args = std::as_bytes(std::span(&args, 1)),
                    .uses = {&use, 1}});
  };
  EXPECT_TRUE(is_settled(0, 16)) << "no kernel runs";
  launch(kAdd, BufferUse::Access::read);
  EXPECT_TRUE(is_settled(0, 16)) << "the kernel ahead only reads";
  launch(kAdd, BufferUse::Access::write);
  EXPECT_FALSE(is_settled(0, 16));
  EXPECT_FALSE(is_settled(4, 1));
  EXPECT_FALSE(is_settled(7, 9));
  EXPECT_TRUE(is_settled(0, 4));
  EXPECT_TRUE(is_settled(8, 8));
  launch(kEarly, BufferUse::Access::read);
  EXPECT_FALSE(is_settled(8, 8)) << "behind a kernel that began early, older ones may still run";
  stream->fill(data, std::byte{0}, 4);
  EXPECT_TRUE(is_settled(0, 16)) << "the next kernel waits for all work";
  launch(kEarly, BufferUse::Access::read_write);
  EXPECT_TRUE(is_settled(0, 4)) << "after a fill no kernel begins early";
  stream->synchronize();
}

/// Returns bytes that the driver takes for an ELF file without sections.
std::vector<std::byte> empty_elf() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header;
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

TEST_F(CudaDeviceOverFake, a_timer_measures_the_work_between_its_points_and_refuses_captures) {
  driver_.set_time_of_kernels([](const std::string& function, uint32_t num_blocks) {
    return function == "add" ? 0.5 * num_blocks : 100;
  });
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  auto& cuda_stream = dynamic_cast<CudaStream&>(*stream);
  const Buffer values = device->allocate(64);
  CudaTimer timer(dynamic_cast<CudaDevice&>(*device));
  launch_add(*stream, values.data(), 1);
  timer.start(cuda_stream);
  launch_add(*stream, values.data(), 1);
  launch_add(*stream, values.data(), 1);
  stream->fill(values.data(), std::byte{0}, 64);
  timer.stop(cuda_stream);
  launch_add(*stream, values.data(), 1);
  EXPECT_NEAR(timer.microseconds(), 4 + 4 + 1, 1e-3);
  stream->begin_capture();
  EXPECT_THROW(timer.start(cuda_stream), CaptureError);
  stream->abort_capture();
  for (uint64_t k = 1; k <= 2; ++k) {
    driver_.fail_call(k);
    EXPECT_THROW(CudaTimer(dynamic_cast<CudaDevice&>(*device)), DeviceError);
  }
  driver_.fail_call(0);
}

TEST_F(CudaDeviceOverFake, generated_code_is_whole_when_it_is_loaded_and_waits_as_all_others) {
  std::vector<bool> programmatic;
  driver_.read_images([&](const void*) -> FakeImage {
    return [&](const std::string& function) -> std::optional<FakeKernel> {
      if (function != "f0" && function != "f1") return std::nullopt;
      return FakeKernel{.parameter_bytes = sizeof(AddArgs), .run = [&](const FakeLaunch& launch) {
                          programmatic.push_back(launch.is_programmatic);
                          EXPECT_EQ(launch.threads_per_block, 96U);
                          run_add(launch);
                        }};
    };
  });
  const std::vector<std::string> functions = {"f0", "f1"};
  for (const bool is_on : {false, true}) {
    programmatic.clear();
    const auto device = create_cuda_device(driver_.api(), {.programmatic_launch = is_on});
    const auto stream = device->create_stream();
    const Buffer values = device->allocate(8 * sizeof(uint32_t));
    const auto loader = create_cubin_loader(*device, 96);
    const auto code = loader->load(empty_elf(), functions);
    const Kernel f0 = code->kernel("f0", "f0");
    const Kernel f1 = code->kernel("f1", "f1");
    driver_.fail_call(0);  // counting starts here
    launch_add(*stream, values.data(), 1, f0);
    launch_add(*stream, values.data(), 1, f1);
    const uint64_t calls_of_two_launches = driver_.num_calls();
    stream->begin_capture();
    driver_.fail_call(0);
    launch_add(*stream, values.data(), 1, f0);
    launch_add(*stream, values.data(), 1, f1);
    EXPECT_EQ(driver_.num_calls(), calls_of_two_launches) << "nothing is left to load";
    const auto graph = stream->end_capture();
    for (const GraphNode& node : graph->nodes())
      EXPECT_TRUE(node.kernel == "f0" || node.kernel == "f1");
    device->instantiate(*graph)->launch(*stream);
    EXPECT_EQ(first_of(*stream, values.data()), 4U);
    EXPECT_EQ(programmatic, (std::vector<bool>{false, is_on, false, is_on}));
  }
  EXPECT_EQ(driver_.resources().modules, 0U);
}

TEST_F(CudaDeviceOverFake, generated_code_that_cannot_be_loaded_leaves_nothing_behind) {
  driver_.read_images(
      [](const void*) -> FakeImage { return [](const std::string&) { return std::nullopt; }; });
  const auto device = create_cuda_device(driver_.api());
  const auto loader = create_cubin_loader(*device, 32);
  const std::vector<std::string> functions = {"f0"};
  EXPECT_THROW((void)loader->load(empty_elf(), functions), CodeLoadError);
  EXPECT_EQ(driver_.resources().modules, 0U);
  const std::vector<std::byte> elf = empty_elf();
  driver_.fail_call(0);
  EXPECT_THROW((void)loader->load(std::span(elf).first(elf.size() - 1), functions), CodeLoadError);
  EXPECT_THROW((void)loader->load({}, functions), CodeLoadError);
  EXPECT_EQ(driver_.num_calls(), 0U) << "the driver would read behind the end";
}

/// Uses every function of a device that an engine uses.
struct Scenario {
  explicit Scenario(std::unique_ptr<Device>& place) : device(place) {}

  void run(const DriverApi& api) {
    device = create_cuda_device(api);
    (void)device->description();
    (void)device->memory();
    device->load(kAdd);
    stream = device->create_stream();
    side = device->create_stream();
    fork = device->create_event();
    join = device->create_event();
    pool = device->create_pool();
    values = device->allocate(32);
    const std::array<uint32_t, 8> zeros{};
    stream->copy_from_host(values.data(), zeros.data(), 32);
    add(*stream, 1);
    stream->record(*fork);
    side->wait(*fork);
    side->fill(values.data(), std::byte{0}, 32);
    side->synchronize();
    fork->synchronize();
    (void)fork->is_complete();
    {
      CaptureScope capture(*stream);
      const PoolReference block(pool->allocate(size_t{1} << 20));  // the pool grows while capturing
      add(*stream, 1, kWide);  // the kernel is loaded while capturing
      stream->record(*fork);
      side->wait(*fork);
      side->fill(block.get()->data, std::byte{1}, 32);
      side->record(*join);
      stream->copy(values.data(), static_cast<char*>(values.data()) + 16, 8);
      stream->wait(*join);
      add(*stream, 2);
      graph = std::move(capture).finish();
    }
    exec = device->instantiate(*graph);
    (void)exec->update(*graph);
    exec->launch(*stream);
    stream->synchronize();
    uint32_t value = 0;
    stream->copy_to_host(&value, values.data(), sizeof value);
  }
  void add(Stream& on, uint32_t amount, const Kernel& kernel = kAdd) {
    const AddArgs args{static_cast<uint32_t*>(values.data()), amount};
    on.launch({.kernel = &kernel, .num_blocks = 8, .args = std::as_bytes(std::span(&args, 1))});
  }

  std::unique_ptr<Device>& device;
  std::unique_ptr<MemoryPool> pool;
  Buffer values;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Stream> side;
  std::unique_ptr<Event> fork;
  std::unique_ptr<Event> join;
  std::unique_ptr<Graph> graph;
  std::unique_ptr<GraphExec> exec;
};

TEST_F(CudaDeviceOverFake, any_failing_call_ends_the_capture_only_and_leaks_nothing) {
  (void)create_cuda_device(driver_.api());  // retains the context, once
  uint64_t num_calls = 0;
  {
    std::unique_ptr<Device> device;
    Scenario scenario(device);
    driver_.fail_call(0);
    scenario.run(driver_.api());
    num_calls = driver_.num_calls();
  }
  ASSERT_GT(num_calls, 50U);
  for (const CUresult error : {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_OUT_OF_MEMORY}) {
    for (uint64_t k = 1; k <= num_calls; ++k) {
      SCOPED_TRACE(testing::Message() << "call " << k);
      std::unique_ptr<Device> device;
      Scenario scenario(device);
      driver_.fail_call(k, error);
      try {
        scenario.run(driver_.api());
        ADD_FAILURE() << driver_.failed_call() << " failed and nobody noticed";
      } catch (const OutOfMemory&) {
        EXPECT_EQ(error, CUDA_ERROR_OUT_OF_MEMORY) << driver_.failed_call();
      } catch (const DeviceError& e) {
        EXPECT_FALSE(e.is_sticky()) << driver_.failed_call();
        EXPECT_NE(std::string(e.what()).find("CUDA_ERROR"), std::string::npos) << e.what();
      }
      driver_.fail_call(0);
      if (scenario.stream == nullptr || scenario.values.data() == nullptr) continue;
      Stream& stream = *scenario.stream;
      EXPECT_FALSE(stream.is_capturing()) << driver_.failed_call();
      stream.fill(scenario.values.data(), std::byte{0}, 32);
      scenario.add(stream, 5);
      EXPECT_EQ(first_of(stream, scenario.values.data()), 5U) << driver_.failed_call();
      CaptureScope again(stream);
      scenario.add(stream, 7);
      const auto exec = device->instantiate(*std::move(again).finish());
      exec->launch(stream);
      EXPECT_EQ(first_of(stream, scenario.values.data()), 12U) << driver_.failed_call();
      EXPECT_NO_THROW((void)device->allocate(64));
    }
  }
}

TEST_F(CudaDeviceOverFake, a_lost_context_is_a_sticky_error_from_then_on) {
  (void)create_cuda_device(driver_.api());  // retains the context, once
  driver_.fail_call(0);
  uint64_t num_calls = 0;
  {
    std::unique_ptr<Device> device;
    Scenario scenario(device);
    scenario.run(driver_.api());
    num_calls = driver_.num_calls();
  }
  constexpr std::array kFatal = {
      CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN, CUDA_ERROR_EXTERNAL_DEVICE};
  for (uint64_t k = 1; k <= num_calls; ++k) {
    std::unique_ptr<Device> device;
    Scenario scenario(device);
    driver_.fail_call(k, kFatal.at(k % kFatal.size()));
    EXPECT_THROW(scenario.run(driver_.api()), DeviceError) << k;
    if (scenario.stream != nullptr) {
      EXPECT_FALSE(scenario.stream->is_capturing());
      try {
        scenario.stream->synchronize();
        ADD_FAILURE() << "call " << k;
      } catch (const DeviceError& error) {
        EXPECT_TRUE(error.is_sticky()) << error.what();
      }
    }
  }
}

TEST_F(CudaDeviceOverFake, a_kernel_without_code_for_this_gpu_is_named) {
  const auto device = create_cuda_device(driver_.api());
  for (const Kernel* kernel : {&kMissing, &kCpuOnly}) {
    try {
      device->load(*kernel);
      ADD_FAILURE() << kernel->name;
    } catch (const DeviceError& error) {
      const bool names_it =
          std::string(error.what()).find(kernel == &kMissing ? "nobody" : "cpu_only") !=
          std::string::npos;
      EXPECT_TRUE(names_it) << error.what();
    }
  }
}

TEST_F(CudaDeviceOverFake, devices_share_the_one_context_of_the_process) {
  std::unique_ptr<Device> survivor;
  for (int i = 0; i < 3; ++i) {
    const auto device = create_cuda_device(driver_.api());
    const auto stream = device->create_stream();
    survivor = create_cuda_device(driver_.api());
  }
  EXPECT_EQ(driver_.num_calls("cuDevicePrimaryCtxRetain"), 1U);
}

TEST_F(CudaDeviceOverFake, each_thread_makes_the_context_current_once) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(32);
  const uint64_t before = driver_.num_calls("cuCtxSetCurrent");
  EXPECT_LE(before, 1U);
  const auto launch_some = [&] {
    for (int i = 0; i < 10; ++i) launch_add(*stream, values.data(), 1);
    EXPECT_GT(first_of(*stream, values.data()), 0U);
  };
  launch_some();
  EXPECT_EQ(driver_.num_calls("cuCtxSetCurrent"), before);
  std::thread(launch_some).join();
  EXPECT_EQ(driver_.num_calls("cuCtxSetCurrent"), before + 1);
}

TEST_F(CudaDeviceOverFake, there_must_be_such_a_gpu) {
  EXPECT_THROW((void)create_cuda_device(driver_.api(), {.device_index = 1}), DeviceError);
  EXPECT_THROW((void)create_cuda_device(driver_.api(), {.device_index = -1}), DeviceError);
}

TEST_F(CudaDeviceOverFake, replaying_is_one_call_of_the_driver) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(32);
  CaptureScope capture(*stream);
  for (int i = 0; i < 20; ++i) launch_add(*stream, values.data(), 1);
  const auto exec = device->instantiate(*std::move(capture).finish());
  driver_.fail_call(0);
  for (int i = 0; i < 10; ++i) exec->launch(*stream);
  EXPECT_EQ(driver_.num_calls(), 10U);
  EXPECT_EQ(first_of(*stream, values.data()), 200U);
}

TEST_F(CudaDeviceOverFake, nodes_are_listed_in_the_order_of_work_with_what_they_wait_for) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  const Buffer a = device->allocate(32);
  const Buffer b = device->allocate(32);
  CaptureScope capture(*stream);
  launch_add(*stream, a.data(), 1);
  stream->copy(b.data(), a.data(), 32);
  stream->fill(a.data(), std::byte{0}, 32);
  const auto graph = std::move(capture).finish();
  const auto nodes = graph->nodes();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].kernel, "add_one");
  EXPECT_EQ(nodes[1].kernel, "copy");
  EXPECT_EQ(nodes[2].kernel, "fill");
  EXPECT_FALSE(nodes[0].waits_for_previous);
  EXPECT_TRUE(nodes[1].waits_for_previous);
  EXPECT_TRUE(nodes[2].waits_for_previous);
}

TEST_F(CudaDeviceOverFake, copies_of_any_size_go_through_the_staging_memory) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  for (const size_t count : {size_t{1}, size_t{3} << 19, (size_t{5} << 20) + 7}) {
    std::vector<uint32_t> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint32_t>(i * 2654435761U);
    const Buffer buffer = device->allocate(count * 4);
    stream->copy_from_host(buffer.data(), values.data(), count * 4);
    std::vector<uint32_t> found(count);
    stream->copy_to_host(found.data(), buffer.data(), count * 4);
    EXPECT_EQ(found, values);
  }
}

TEST_F(CudaDeviceOverFake, an_error_of_any_thread_ends_a_large_upload_and_the_next_one_works) {
  const auto device = create_cuda_device(driver_.api());
  const size_t count = size_t{6} << 20;
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint32_t>(i * 2654435761U);
  const Buffer buffer = device->allocate(count * 4);
  // Twelve parts are copied and recorded, so no upload makes fewer than 24 calls.
  for (uint64_t k = 1; k <= 24; ++k) {
    SCOPED_TRACE(testing::Message() << "call " << k);
    const auto stream = device->create_stream();
    driver_.fail_call(k);
    EXPECT_THROW(stream->copy_from_host(buffer.data(), values.data(), count * 4), DeviceError);
    driver_.fail_call(0);
    stream->copy_from_host(buffer.data(), values.data(), count * 4);
    std::vector<uint32_t> found(count);
    stream->copy_to_host(found.data(), buffer.data(), count * 4);
    EXPECT_TRUE(found == values);
  }
}

TEST_F(CudaDeviceOverFake, a_capture_left_by_its_thread_is_ended_when_it_comes_by_again) {
  const auto device = create_cuda_device(driver_.api());
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(32);
  stream->begin_capture();
  std::thread other([&] {
    EXPECT_THROW((void)stream->end_capture(), CaptureError);
    launch_add(*stream, values.data(), 3);  // the stream can launch eagerly at once
    EXPECT_EQ(first_of(*stream, values.data()), 3U);
  });
  other.join();
  EXPECT_NO_THROW((void)device->allocate(64));
  EXPECT_EQ(driver_.resources().streams, 2U);  // this stream and the device's own
}

}  // namespace
}  // namespace reprise::device::cuda
