#include "oubli/array/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "oubli/array/file_kind_table.h"
#include "oubli/array/packed_stream.h"
#include "oubli/array/zip.h"
#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

namespace {

using enum FileKind;
using namespace file_kinds;

// Much more than any of these formats needs to show what it is.
constexpr std::size_t kLooked = std::size_t{1} << 16;

bool starts_with_nocase(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::ranges::equal(text.substr(0, word.size()), word, [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) ==
                  std::tolower(static_cast<unsigned char>(b));
         });
}

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::string_view without_space(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

bool is_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || byte == '\t' || byte == '\n' || byte == '\r';
  });
}

std::optional<FileIdentity> by_magic(std::string_view text) {
  for (const Magic& row : kMagics)
    if (text.size() >= row.offset && text.substr(row.offset).starts_with(row.bytes))
      return FileIdentity{row.kind, std::string(row.what), std::string(row.advice)};
  // zlib's header: deflate, a window of 32 KiB, and a check of both bytes.
  if (text.size() > 2 && text[0] == '\x78' &&
      (0x7800 + static_cast<unsigned char>(text[1])) % 31 == 0)
    return FileIdentity{packed, "compressed by zlib, as joblib does",
                        "unpack it first: python3 -c \"import joblib; "
                        "joblib.dump(joblib.load('FILE'), 'model.joblib', compress=0)\" (only if "
                        "you trust it: loading runs what is in it)"};
  return std::nullopt;
}

// A line "size 12345" among the first ones.
std::string size_in_pointer(std::string_view text) {
  const std::size_t at = text.find("\nsize ");
  std::uint64_t size = 0;
  if (at == std::string_view::npos) return {};
  const char* const begin = text.data() + at + 6;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), size);
  return error == std::errc() ? fmt::format(" to {} bytes", size) : std::string();
}

std::optional<FileIdentity> by_json(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  const auto has = [&](std::string_view key) { return contains(text, key); };
  if (has("\"modelTopology\"") && has("\"weightsManifest\""))
    return FileIdentity{other_model, "TensorFlow.js",
                        "convert it: tensorflowjs_converter --input_format=tfjs_layers_model "
                        "--output_format=keras FILE model.h5"};
  if (has("\"weight_map\""))
    return FileIdentity{no_model, "the index of a model in several files",
                        "give the folder: FOLDER"};
  if (has("\"learner\"")) return FileIdentity{no_head, "XGBoost", std::string(kTrees)};
  if (has("\"oubli-receipt\""))
    return FileIdentity{no_model, "a receipt", "check it: oubli verify FILE --model NEW"};
  if (has("\"id2label\"") || has("\"architectures\"") || has("\"pretrained_cfg\""))
    return FileIdentity{no_model, "the configuration of a Hugging Face model",
                        "give the folder: FOLDER"};
  if (has("\"error\""))
    return FileIdentity{no_model, "a server's error message, saved in place of the file",
                        std::string(kDownload)};
  return FileIdentity{no_model, "a JSON document", ""};
}

std::optional<FileIdentity> by_text(std::string_view all) {
  const std::string_view text = without_space(all);
  if (text.starts_with("version https://git-lfs.github.com/spec/"))
    return FileIdentity{
        no_model, fmt::format("a Git LFS pointer{}, not the file itself", size_in_pointer(text)),
        "fetch the file: git -C FOLDER lfs pull"};
  if (starts_with_nocase(text, "<!doctype html") || starts_with_nocase(text, "<html") ||
      starts_with_nocase(text, "<head"))
    return FileIdentity{no_model, "a web page, saved in place of the file", std::string(kDownload)};
  if (text.starts_with("<?xml") || text.starts_with("<net ") || text.starts_with("<PMML")) {
    if (contains(text, "<PMML"))
      return FileIdentity{other_model, "PMML",
                          "give the file of the library that it was made with"};
    if (contains(text, "<net ")) return FileIdentity{other_model, "OpenVINO", std::string(kToOnnx)};
    if (contains(text, "<Error>"))
      return FileIdentity{no_model, "a server's error message, saved in place of the file",
                          std::string(kDownload)};
    return FileIdentity{no_model, "an XML document", ""};
  }
  for (const std::string_view error : kServerErrors)
    if (text.size() < 1000 && starts_with_nocase(text, error))
      return FileIdentity{no_model, "a server's error message, saved in place of the file",
                          std::string(kDownload)};
  if (auto json = by_json(text)) return json;
  return std::nullopt;
}

// ---- archives

FileIdentity by_zip(std::span<const std::byte> bytes, const fs::path& path) {
  std::vector<std::string> names;
  try {
    const ZipArchive archive(bytes, "its directory");
    for (const ZipEntry& entry : archive.entries()) names.push_back(entry.name);
  } catch (const Error& error) {
    return {damaged, fmt::format("a zip archive that cannot be read: {}", error.what()),
            "if it was downloaded or copied, it may have been cut short: do so again"};
  }
  const auto ends = [&](std::string_view ending) {
    return std::ranges::any_of(names, [&](const std::string& n) { return n.ends_with(ending); });
  };
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (ends("archive_format") || has("serialized_exported_program.json"))
    return {other_model, "torch.export's program",
            "save its weights: python3 -c \"import torch; "
            "torch.save(torch.export.load('FILE').state_dict, 'weights.pth')\""};
  if (ends("/data.pkl") && (ends("/constants.pkl") || ends("/version") || ends("/byteorder")))
    return ends("/constants.pkl")
               ? FileIdentity{torch_script, "TorchScript",
                              "save its weights: python3 -c \"import torch; "
                              "torch.save(torch.jit.load('FILE', 'cpu').state_dict(), "
                              "'weights.pth')\""}
               : FileIdentity{torch, "PyTorch", ""};
  if (has("config.json") && has("model.weights.h5")) return {keras, "Keras (.keras)", ""};
  if (has("schema.json") && ends(".npy"))
    return {other_model, "skops",
            "save it by joblib: joblib.dump(skops.io.load('FILE'), 'model."
            "joblib')"};
  if (ends(".mlmodel") || ends("Manifest.json"))
    return {other_model, "a Core ML package", std::string(kToOnnx)};
  if (ends("saved_model.pb"))
    return {packed, "a zip archive of a TensorFlow SavedModel",
            "unpack it (unzip FILE), then: python3 -m tf2onnx.convert --saved-model UNPACKED "
            "--output model.onnx"};
  if (has("[Content_Types].xml")) return {no_model, "an Office document", ""};
  if (has("META-INF/MANIFEST.MF")) return {no_model, "a Java archive", ""};
  if (ends(".npy") || path.extension() == ".npz") return {npz, "an .npz archive of arrays", ""};
  return {packed, "a zip archive of something else", "unpack it first: unzip FILE"};
}

// ---- pickles

// The text that an opcode of Python's protocols 2 to 5 pushes or names; position moves behind it.
std::optional<std::string_view> pickled_text(std::string_view bytes, std::size_t& at) {
  const auto take = [&](std::size_t width) -> std::optional<std::string_view> {
    if (bytes.size() - at < width + 1) return std::nullopt;
    std::size_t length = 0;
    for (std::size_t i = 0; i < width; ++i)
      length |= std::size_t{static_cast<unsigned char>(bytes[at + 1 + i])} << (8 * i);
    const std::size_t from = at + 1 + width;
    if (length > bytes.size() - from) return std::nullopt;
    at = from + length;
    return bytes.substr(from, length);
  };
  if (bytes[at] == '\x8c') return take(1);
  if (bytes[at] == 'X') return take(4);
  return std::nullopt;
}

// "sklearn.linear_model._logistic.LogisticRegression": the first class or function that the pickle
// names; empty if it is none of the plain beginnings that Python writes.
std::string first_global(std::string_view bytes) {
  std::size_t at = 2;
  std::string_view module;
  for (int step = 0; step < 8 && at < bytes.size(); ++step) {
    const char code = bytes[at];
    if (code == '\x95') {  // FRAME and its length
      at += 9;
    } else if (code == '\x94' || code == '(' || code == '}' || code == ']') {
      ++at;
    } else if (code == 'q') {
      at += 2;
    } else if (code == 'c') {  // module and name, a line each
      const std::size_t end = bytes.find('\n', at);
      const std::size_t last = end == std::string_view::npos ? end : bytes.find('\n', end + 1);
      if (last == std::string_view::npos) return {};
      return fmt::format("{}.{}", bytes.substr(at + 1, end - at - 1),
                         bytes.substr(end + 1, last - end - 1));
    } else if (const auto text = pickled_text(bytes, at)) {
      if (!module.empty()) {
        const bool named = at < bytes.size() && (bytes[at] == '\x93' || bytes[at] == '\x94');
        return named ? fmt::format("{}.{}", module, *text) : std::string();
      }
      module = *text;
    } else {
      return {};
    }
  }
  return {};
}

std::optional<FileIdentity> by_pickle(std::string_view text) {
  if (text.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"sv))
    return FileIdentity{torch_old, "PyTorch before 1.6",
                        "save it anew: python3 -c \"import torch; "
                        "torch.save(torch.load('FILE', 'cpu'), 'model.pth')\" (only if you trust "
                        "it: loading runs what is in it)"};
  if (text.size() < 3 || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return std::nullopt;
  const std::string global = first_global(text);
  const bool printable = is_text(global) && global.size() < 200;
  for (const Library& library : kNoLinearLayer)
    if (printable && global.starts_with(library.module))
      return FileIdentity{no_head, fmt::format("a pickle of {}", global), std::string(library.why)};
  return FileIdentity{pickle, printable ? fmt::format("a pickle of {}", global) : "a pickle",
                      "save the head's numbers: numpy.savez('head.npz', W=..., b=...)"};
}

// ---- protocol buffers

struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;        // of a varint
  std::string_view content = {};  // of a message or text, as far as it is there
  bool cut = false;
};

std::optional<std::uint64_t> varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The first fields of a message; empty if it is none.
std::vector<Field> fields_of(std::string_view bytes, std::size_t most) {
  std::vector<Field> fields;
  std::size_t at = 0;
  while (at < bytes.size() && fields.size() < most) {
    const auto key = varint(bytes, at);
    if (!key || *key >> 3 == 0 || *key >> 3 > 5000) return {};
    Field field{*key >> 3};
    const std::uint64_t type = *key & 7;
    const auto value = type == 0 || type == 2 ? varint(bytes, at) : std::optional<std::uint64_t>(0);
    if (!value) return {};
    field.value = *value;
    const std::uint64_t length = type == 2 ? *value : type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type == 3 || type == 4 || type > 5) return {};
    field.cut = length > bytes.size() - at;
    field.content = bytes.substr(
        at, static_cast<std::size_t>(std::min<std::uint64_t>(length, bytes.size() - at)));
    at += field.content.size();
    fields.push_back(field);
    if (field.cut) break;
  }
  return fields;
}

std::optional<FileIdentity> by_protobuf(std::string_view text) {
  if (text.empty() || (text[0] != '\x08' && text[0] != '\x0a')) return std::nullopt;
  const std::vector<Field> fields = fields_of(text, 64);
  if (fields.empty()) return std::nullopt;
  const auto any = [&](auto test) { return std::ranges::any_of(fields, test); };
  if (text[0] == '\x08') {
    if (any([](const Field& f) { return f.number >= 200; }))
      return FileIdentity{other_model, "Core ML (.mlmodel)", std::string(kToOnnx)};
    // ONNX: its graph is field 7, what it imports 8; names of producers are text.
    if (any([](const Field& f) { return f.number == 7 || f.number == 8; }))
      return FileIdentity{onnx, "ONNX", ""};
    const bool meta_graph = fields.size() > 1 && fields[1].number == 2 &&
                            !fields[1].content.empty() && !is_text(fields[1].content);
    if (fields[0].value == 1 && meta_graph)
      return FileIdentity{other_model, "a TensorFlow SavedModel", std::string(kSavedModel)};
    return std::nullopt;
  }
  const std::vector<Field> first = fields_of(fields[0].content, 2);
  if (first.size() == 2 && first[0].number == 1 && first[1].number == 2 &&
      is_text(first[0].content) && is_text(first[1].content))
    return FileIdentity{other_model, "a TensorFlow graph (frozen GraphDef)",
                        "convert it: python3 -m tf2onnx.convert --graphdef FILE --inputs INPUT:0 "
                        "--outputs OUTPUT:0 --output model.onnx"};
  if (is_text(fields[0].content) && any([](const Field& f) { return f.number == 100; }))
    return FileIdentity{other_model, "Caffe (.caffemodel)", std::string(kToOnnx)};
  return std::nullopt;
}

// ---- HDF5: its signature may stand behind a block of the user's

std::optional<FileIdentity> by_hdf5(std::string_view text) {
  constexpr auto kSignature = "\x89HDF\r\n\x1a\n"sv;
  for (std::size_t at = 0; at + kSignature.size() <= text.size(); at = at == 0 ? 512 : 2 * at)
    if (text.substr(at).starts_with(kSignature))
      return FileIdentity{hdf5, "HDF5, as Keras writes it", ""};
  return std::nullopt;
}

std::optional<FileIdentity> by_ending(const fs::path& path) {
  const std::string ending = path.extension().string();
  for (const auto& [word, kind] : {std::pair(".onnx", onnx), std::pair(".npy", npy),
                                   std::pair(".npz", npz), std::pair(".safetensors", safetensors)})
    if (ending == word) return FileIdentity{kind, fmt::format("{} by its name", word), ""};
  for (const char* const word : {".part", ".crdownload", ".partial", ".download"})
    if (ending == word)
      return FileIdentity{damaged, "an unfinished download", "wait for it, or download it again"};
  return std::nullopt;
}

// Puts the file's name, quoted for a shell where it must be, into an advice.
std::string with_names(std::string advice, const fs::path& path) {
  const auto quoted = [](std::string name) {
    const bool plain = std::ranges::all_of(name, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || contains("._-/+@:,", {&c, 1});
    });
    if (plain || contains(name, "'")) return name;
    return "'" + name + "'";
  };
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto put = [&](std::string_view word, const std::string& name) {
    const std::size_t at = advice.find(word);
    if (at == std::string::npos) return;
    const bool in_quotes = at > 0 && advice[at - 1] == '\'';
    advice.replace(at, word.size(), in_quotes ? name : quoted(name));
  };
  put("FOLDER", folder.string());
  put("FILE", path.string());
  return advice;
}

FileIdentity identify_folder(const fs::path& path) {
  std::error_code none;
  const auto has = [&](const char* name) { return fs::exists(path / name, none); };
  if (has("saved_model.pb"))
    return {other_model, "a TensorFlow SavedModel",
            with_names(std::string(kSavedModel), path / "saved_model.pb")};
  if (has("Manifest.json")) return {other_model, "a Core ML package", std::string(kToOnnx)};
  if (has("config.json")) return {huggingface, "a Hugging Face folder", ""};
  return {no_model, "a folder", "give the model file in it"};
}

}  // namespace

FileIdentity identify(std::span<const std::byte> bytes, const fs::path& path) {
  const std::string_view all = as_text(bytes);
  const std::string_view text = all.substr(0, kLooked);
  const auto found = [&]() -> std::optional<FileIdentity> {
    if (text.empty())
      return FileIdentity{damaged, "empty", "if it was downloaded or copied, do so again"};
    if (text.starts_with("PK\3\4") || text.starts_with("PK\5\6")) return by_zip(bytes, path);
    if (text.size() > 8 && text[8] == '{' && text[6] == 0 && text[7] == 0)
      return FileIdentity{safetensors, ".safetensors", ""};
    if (packing_of(text) != Packing::none)
      if (auto known = by_pickle(unpack_start(text, kLooked))) return known;
    if (auto known = by_magic(text)) return known;
    if (auto known = by_hdf5(all)) return known;
    if (auto known = by_pickle(text)) return known;
    if (auto known = by_text(text)) return known;
    if (auto known = by_protobuf(all)) return known;
    if (text.size() >= 64 && text.find_first_not_of('\0') == std::string_view::npos)
      return FileIdentity{damaged, "nothing but zeros at its beginning: an unfinished download",
                          "download it again"};
    return by_ending(path);
  }();
  if (!found) return {unknown, "of no format known here", ""};
  return {found->kind, found->what, with_names(found->advice, path)};
}

FileIdentity identify(const fs::path& path) {
  std::error_code none;
  if (fs::is_directory(path, none)) return identify_folder(path);
  const MappedFile file(path);
  return identify(file.bytes(), path);
}

void refuse(const fs::path& path, const FileIdentity& identity, const std::string& wanted) {
  const bool headless = identity.kind == no_head;
  fail(headless ? ErrorCode::unfilterable : ErrorCode::bad_input, "{}: {}{}{}{}", path.string(),
       identity.what, headless ? std::string() : fmt::format("; wanted {}", wanted),
       identity.advice.empty() ? "" : "; ", identity.advice);
}

}  // namespace oubli
