/**
 * styledByScript lets a terminal style itself in a document, until what it returns
 * is called. The policy of the console refuses styles that stand in elements and
 * attributes, which is how the terminal makes its own; here they go into a sheet that
 * a script has made, and into the style of an element itself, which the policy allows.
 */
export function styledByScript(page: Document): () => void {
  const made: CSSStyleSheet[] = []
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- only one of its overloads is
  const create = page.createElement.bind(page)
  const createElement = (name: string, options?: ElementCreationOptions) => {
    if (name === 'span') {
      const element = create(name, options)
      element.setAttribute = setAttribute
      return element
    }
    if (name !== 'style') return create(name, options)
    const sheet = new CSSStyleSheet()
    made.push(sheet)
    page.adoptedStyleSheets.push(sheet)
    const placeholder = create('template')
    Object.defineProperty(placeholder, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
    return placeholder
  }
  Object.defineProperty(page, 'createElement', { value: createElement, configurable: true })
  return () => {
    Reflect.deleteProperty(page, 'createElement')
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((sheet) => !made.includes(sheet))
  }
}

function setAttribute(this: HTMLElement, name: string, value: string) {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
