#pragma once

// The part of ONNX Runtime's C interface that is used here, declared anew so that nothing of it is
// needed to build. The interface is a table of functions whose positions never change (its
// documentation promises it, and its own sources assert it): new versions append. Signatures and
// positions are facts of that interface, version 1 to 21 (ONNX Runtime 1.21 and later).
// Include in .cpp files only.

#include <cstddef>
#include <cstdint>

namespace oubli::ort {

inline constexpr std::uint32_t kApiVersion = 21;

// Opaque on this side.
struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct MemoryInfo;
struct TensorInfo;

using Slot = void (*)();

struct Base {
  const Slot* (*get_api)(std::uint32_t version);
  const char* (*version_string)();
};

// An entry of the table: its position and its type.
template <std::size_t position, typename Signature>
struct Entry;
template <std::size_t position, typename Result, typename... Args>
struct Entry<position, Result(Args...)> {
  const Slot* const* table;
  Result operator()(Args... args) const {
    return reinterpret_cast<Result (*)(Args...)>((*table)[position])(args...);
  }
};

class Api {
 public:
  explicit Api(const Slot* table) : table_(table) {}
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

 private:
  const Slot* table_;

 public:
  Entry<2, const char*(const Status*)> error_message{&table_};
  Entry<3, Status*(int level, const char* name, Env**)> create_env{&table_};
  Entry<8,
        Status*(const Env*, const void* model, std::size_t size, const SessionOptions*, Session**)>
      create_session_from_array{&table_};
  Entry<9, Status*(Session*, const RunOptions*, const char* const* input_names,
                   const Value* const* inputs, std::size_t input_count,
                   const char* const* output_names, std::size_t output_count, Value** outputs)>
      run{&table_};
  Entry<10, Status*(SessionOptions**)> create_session_options{&table_};
  Entry<22, Status*(SessionOptions*, int level)> set_log_severity{&table_};
  Entry<24, Status*(SessionOptions*, int threads)> set_intra_op_threads{&table_};
  Entry<25, Status*(SessionOptions*, int threads)> set_inter_op_threads{&table_};
  Entry<49, Status*(const MemoryInfo*, void* data, std::size_t size, const std::int64_t* shape,
                    std::size_t rank, int element_type, Value**)>
      create_tensor_with_data{&table_};
  Entry<51, Status*(Value*, void**)> tensor_data{&table_};
  Entry<60, Status*(const TensorInfo*, int*)> element_type{&table_};
  Entry<61, Status*(const TensorInfo*, std::size_t*)> dimension_count{&table_};
  Entry<62, Status*(const TensorInfo*, std::int64_t*, std::size_t)> dimensions{&table_};
  Entry<65, Status*(const Value*, TensorInfo**)> tensor_type_and_shape{&table_};
  Entry<69, Status*(int allocator_type, int memory_type, MemoryInfo**)> create_cpu_memory_info{
      &table_};
  Entry<92, void(Env*)> release_env{&table_};
  Entry<93, void(Status*)> release_status{&table_};
  Entry<94, void(MemoryInfo*)> release_memory_info{&table_};
  Entry<95, void(Session*)> release_session{&table_};
  Entry<96, void(Value*)> release_value{&table_};
  Entry<99, void(TensorInfo*)> release_tensor_info{&table_};
  Entry<100, void(SessionOptions*)> release_session_options{&table_};
  Entry<130, Status*(SessionOptions*, const char* key, const char* value)> add_config_entry{
      &table_};
};

}  // namespace oubli::ort
