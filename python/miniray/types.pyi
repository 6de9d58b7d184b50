from miniray import ObjectRef as ObjectRef, ObjectRefGenerator as ObjectRefGenerator
