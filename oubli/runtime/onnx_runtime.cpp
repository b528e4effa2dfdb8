#include "oubli/runtime/onnx_runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/data/load.h"
#include "oubli/onnx/model.h"
#include "oubli/runtime/ort_api.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

constexpr int kLogErrors = 3;
constexpr int kArenaAllocator = 1;
constexpr int kDefaultMemory = 0;

std::vector<fs::path> candidates(const std::optional<fs::path>& path) {
  if (path) return {*path};
  if (const char* named = std::getenv("OUBLI_ONNXRUNTIME"); named != nullptr && *named != '\0') {
    return {named};
  }
  std::vector<fs::path> found{"libonnxruntime.so.1", "libonnxruntime.so"};
  for (const char* name : {"full", "small"}) {
    found.push_back(data_folder() / "runtime" / name / "libonnxruntime.so.1");
  }
  return found;
}

}  // namespace

struct OnnxRuntime::State {
  State(void* library_handle, const ort::Slot* table) : library(library_handle), api(table) {}
  ~State() {
    if (env != nullptr) api.release_env(env);
    // The library stays loaded: its threads and exit handlers must not lose their code.
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void check(ort::Status* status, const std::string& what) const {
    if (status == nullptr) return;
    const std::string message = api.error_message(status);
    api.release_status(status);
    fail(ErrorCode::bad_input, "{}: ONNX Runtime: {}", what, message);
  }

  void* library;
  ort::Api api;
  ort::Env* env = nullptr;
};

std::shared_ptr<const OnnxRuntime> OnnxRuntime::open(const std::optional<fs::path>& path) {
  std::string last_error;
  for (const fs::path& candidate : candidates(path)) {
    void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      last_error = dlerror();
      continue;
    }
    const auto get_base = reinterpret_cast<const ort::Base* (*)()>(dlsym(library, "OrtGetApiBase"));
    if (get_base == nullptr) {
      fail(ErrorCode::missing, "{}: is not ONNX Runtime (it has no OrtGetApiBase)",
           candidate.string());
    }
    const ort::Base* const base = get_base();
    const ort::Slot* const table = base->get_api(ort::kApiVersion);
    if (table == nullptr) {
      fail(ErrorCode::missing, "{}: ONNX Runtime {}, wanted 1.21 or later", candidate.string(),
           base->version_string());
    }
    std::shared_ptr<OnnxRuntime> runtime(new OnnxRuntime);
    runtime->state_ = std::make_unique<State>(library, table);
    runtime->version_ = base->version_string();
    runtime->library_ = candidate;
    runtime->state_->check(
        runtime->state_->api.create_env(kLogErrors, "oubli", &runtime->state_->env),
        candidate.string());
    return runtime;
  }
  fail(ErrorCode::missing,
       "ONNX Runtime is not here ({}); run 'oubli get-runtime', or name its library with --runtime "
       "or OUBLI_ONNXRUNTIME, or give the features yourself with --features",
       last_error);
}

OnnxRuntime::~OnnxRuntime() = default;

struct OnnxSession::State {
  std::shared_ptr<const OnnxRuntime> runtime;
  std::string what;
  ort::Session* session = nullptr;
  ort::MemoryInfo* memory = nullptr;

  const ort::Api& api() const { return runtime->state_->api; }
  void check(ort::Status* status) const { runtime->state_->check(status, what); }
  [[nodiscard]] Tensor copy_of(ort::Value* value, const std::string& name) const;
  ~State() {
    if (session != nullptr) api().release_session(session);
    if (memory != nullptr) api().release_memory_info(memory);
  }
};

Tensor OnnxSession::State::copy_of(ort::Value* value, const std::string& name) const {
  ort::TensorInfo* info = nullptr;
  runtime->state_->check(api().tensor_type_and_shape(value, &info),
                         fmt::format("{}: value '{}'", what, name));
  struct Release {
    const ort::Api& api;
    ort::TensorInfo* info;
    ~Release() { api.release_tensor_info(info); }
  } release{api(), info};
  int type = 0;
  std::size_t rank = 0;
  check(api().element_type(info, &type));
  check(api().dimension_count(info, &rank));
  std::vector<std::int64_t> dims(rank);
  check(api().dimensions(info, dims.data(), rank));
  const std::optional<DType> dtype = onnx::dtype_of(static_cast<std::uint64_t>(type));
  if (!dtype)
    fail(ErrorCode::bad_input, "{}: value '{}' has element type {}, wanted numbers", what, name,
         type);
  Tensor tensor{*dtype, {}, {}};
  for (const std::int64_t dim : dims) tensor.shape.push_back(static_cast<std::size_t>(dim));
  void* data = nullptr;
  check(api().tensor_data(value, &data));
  tensor.bytes.resize(element_count(tensor.shape, name) * size_of(*dtype));
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), data, tensor.bytes.size());
  return tensor;
}

OnnxSession::OnnxSession(std::shared_ptr<const OnnxRuntime> runtime,
                         std::span<const std::byte> model, const fs::path& folder,
                         const std::string& what, unsigned threads)
    : state_(std::make_unique<State>()) {
  state_->runtime = std::move(runtime);
  state_->what = what;
  const ort::Api& api = state_->api();
  ort::SessionOptions* options = nullptr;
  state_->check(api.create_session_options(&options));
  struct Release {
    const ort::Api& api;
    ort::SessionOptions* options;
    ~Release() { api.release_session_options(options); }
  } release{api, options};
  // One thread per session is the rule, so that results do not depend on the number of cores;
  // several batches run side by side instead.
  state_->check(api.set_intra_op_threads(options, static_cast<int>(threads)));
  state_->check(api.set_inter_op_threads(options, 1));
  state_->check(api.set_log_severity(options, kLogErrors));
  const std::string where = fs::absolute(folder.empty() ? fs::path(".") : folder).string();
  state_->check(api.add_config_entry(
      options, "session.model_external_initializers_file_folder_path", where.c_str()));
  state_->check(api.create_cpu_memory_info(kArenaAllocator, kDefaultMemory, &state_->memory));
  state_->check(api.create_session_from_array(state_->runtime->state_->env, model.data(),
                                              model.size(), options, &state_->session));
}

OnnxSession::~OnnxSession() = default;
OnnxSession::OnnxSession(OnnxSession&&) noexcept = default;
OnnxSession& OnnxSession::operator=(OnnxSession&&) noexcept = default;

std::vector<Tensor> OnnxSession::run(std::span<const Input> inputs,
                                     std::span<const std::string> outputs) const {
  const ort::Api& api = state_->api();
  struct Values {
    const ort::Api& api;
    std::vector<ort::Value*> values;
    ~Values() {
      for (ort::Value* value : values) {
        if (value != nullptr) api.release_value(value);
      }
    }
  };
  Values in{api, std::vector<ort::Value*>(inputs.size())};
  Values out{api, std::vector<ort::Value*>(outputs.size())};
  std::vector<const char*> input_names;
  std::vector<const char*> output_names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& view = inputs[i].value;
    const std::vector<std::int64_t> shape(view.shape.begin(), view.shape.end());
    // The runtime only reads inputs; its interface just does not say const.
    state_->check(api.create_tensor_with_data(
        state_->memory,
        const_cast<std::byte*>(view.bytes.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        view.bytes.size(), shape.data(), shape.size(),
        static_cast<int>(onnx::data_type_of(view.dtype)), &in.values[i]));
    input_names.push_back(inputs[i].name.c_str());
  }
  for (const std::string& name : outputs) output_names.push_back(name.c_str());
  state_->check(api.run(state_->session, nullptr, input_names.data(), in.values.data(),
                        inputs.size(), output_names.data(), outputs.size(), out.values.data()));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    results.push_back(state_->copy_of(out.values[i], outputs[i]));
  return results;
}

}  // namespace oubli
