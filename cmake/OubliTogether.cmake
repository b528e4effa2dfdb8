# In release builds, the files of one folder are compiled as one: what the JSON and formatting libraries
# generate is generated once per folder, in a third of the time. Development builds compile file by
# file, so that a change costs one file. Folders that compute stay apart: which multiplications and
# additions are fused must not depend on what else is in the folder.
# The price: names in unnamed namespaces must differ within these folders; tests/together.sh looks.
option(OUBLI_TOGETHER "Compile folders as a whole" OFF)
# Not oubli/experiment: a concept of json_fields.h is asked before and after its answer is declared.
set(OUBLI_TOGETHER_FOLDERS
  array base data forget model model/arrays model/huggingface model/keras model/onnx
  model/sklearn model/tflite model/torch onnx pickle)
if(OUBLI_TOGETHER)
  set_target_properties(oubli PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Warnings are for development builds, which see each file alone: in a unit, names of one file
  # shadow another's, and all files but the unit itself are headers to g++, where unnamed namespaces
  # are suspect.
  set_target_properties(oubli PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
  target_compile_options(oubli_flags INTERFACE -Wno-shadow
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

function(oubli_together)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/oubli ${CMAKE_CURRENT_SOURCE_DIR})
  if(OUBLI_TOGETHER AND folder IN_LIST OUBLI_TOGETHER_FOLDERS)
    string(REPLACE "/" "_" group ${folder})
    set_source_files_properties(${ARGN} TARGET_DIRECTORY oubli PROPERTIES UNITY_GROUP ${group})
  endif()
endfunction()
